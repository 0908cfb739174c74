"""The URLs of oncelog.etcd.endpoints. The form is that of etcd's own clients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_URL: Final = r"(?P<scheme>https?)://(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]/:@\s]+):(?P<port>\d{1,5})/?"


class EtcdAddress(NamedTuple):
    """The address of a member's client listener. `host` has no brackets."""

    host: str
    port: int
    has_tls: bool

    @property
    def authority(self) -> str:
        """Return host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.has_tls else 'http'}://{self.authority}"


def parse_addresses(urls: Sequence[str]) -> tuple[EtcdAddress, ...]:
    """Return the addresses. Raises ValueError for a text of another form, and for an address that
    occurs twice."""
    addresses: list[EtcdAddress] = []
    for url in urls:
        form = re.fullmatch(_URL, url.strip())
        if form is None or not 0 < int(form["port"]) < 65536:
            raise ValueError(f"{url!r} is not http://host:port or https://host:port")
        host = form["host"].strip("[]")
        address = EtcdAddress(host, int(form["port"]), form["scheme"] == "https")
        if address in addresses:
            raise ValueError(f"{address} occurs twice")
        addresses.append(address)
    return tuple(addresses)


def valid_addresses(urls: Sequence[str]) -> str | None:
    """Return the reason why the setting is invalid, None if it is valid."""
    try:
        parse_addresses(urls)
    except ValueError as error:
        return str(error)
    return None
