"""Settings and their errors cross processes, and show no secret."""

from __future__ import annotations

import pickle

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError


def test_settings_and_errors_are_picklable() -> None:
    settings = TlsSettings(keystore_key=Secret("S3cret!"), keystore_password=Secret("S3cret!"))
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(settings) == hash(pickle.loads(pickle.dumps(settings)))
    assert "S3cret" not in f"{settings} {settings!r}"
    error = pickle.loads(pickle.dumps(TlsSettingsError("ssl.keystore.key", "is wrong")))
    assert (error.setting, error.reason) == ("ssl.keystore.key", "is wrong")
    assert str(error) == "ssl.keystore.key: is wrong"
