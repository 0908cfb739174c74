"""The TLS settings of a client, as `oncelog_protocol.tls` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from oncelog_client.errors import ConfigError
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError

_PREFIX: Final = "ssl_"


def tls_settings(values: Mapping[str, Any]) -> TlsSettings:
    """Return the settings `ssl_*` among the `values` of a client. A setting that is None has the
    default of TlsSettings."""
    held = {name: values.get(_PREFIX + name) for name in TlsSettings._fields}
    return TlsSettings(**{name: value for name, value in held.items() if value is not None})


def setting_error(error: TlsSettingsError) -> ConfigError:
    """Return an error with the name of the setting in this client."""
    return ConfigError(f"{error.setting.replace('.', '_')}: {error.reason}")
