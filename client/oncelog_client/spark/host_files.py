"""Errors about files of keys and certificates, which each process of Spark reads by itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from oncelog_client.errors import ConfigError

_EVERYWHERE = "the file must be on the driver and on every executor; a value in PEM needs no file"


@contextmanager
def naming_host() -> Iterator[None]:
    """Raise a ConfigError of the block with the host's name and the option, because the same path
    may be usable on other hosts."""
    try:
        yield
    except ConfigError as error:
        setting, colon, reason = error.message.partition(": ")
        if not colon or not setting.startswith("ssl_"):
            raise
        option = "kafka." + setting.replace("_", ".")
        hint = f" ({_EVERYWHERE})" if setting.endswith("_location") else ""
        raise ConfigError(f"host {socket.gethostname()}: option {option}: {reason}{hint}") from None
