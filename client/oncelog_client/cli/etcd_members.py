"""A check of the members of etcd, from this computer: the brokers use one member at a time, and do
not notice that another one is missing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from oncelog_client.cli.cluster_state import ClusterState
from oncelog_client.cli.findings import NOTICE, Row, row_of

if TYPE_CHECKING:
    from oncelog_client.admin import Admin

CHECK: Final = "etcd members"
ENDPOINTS: Final = "oncelog.etcd.endpoints"
DEFAULT_PORT: Final = 2379
# Less than the time after which a check counts as late (`SILENCE_S` in timed_checks.py).
TIMEOUT_S: Final = 1.5
_HEALTHY: Final = b'"health":"true"'


async def endpoints_of(admin: Admin, state: ClusterState) -> list[str]:
    """Return the URLs of etcd's members, or no URLs if the brokers have another metadata store."""
    from oncelog_client.admin import ConfigResource, ResourceType

    if not state.alive:
        return []
    resource = ConfigResource(ResourceType.BROKER, str(min(state.alive)))
    entries = (await admin.describe_configs([resource]))[resource]
    value = entries[ENDPOINTS].value if ENDPOINTS in entries else None
    return [url.strip() for url in (value or "").split(",") if url.strip()]


async def etcd_members(admin: Admin, state: ClusterState) -> list[Row]:
    """Return a notice with the members that are not healthy. It is empty if no member is healthy,
    because this computer may then have no connection to etcd."""
    urls = await endpoints_of(admin, state)
    failures = await asyncio.gather(*map(_failure, urls))
    found = [f"{url} {failure}" for url, failure in zip(urls, failures, strict=True) if failure]
    if len(found) == len(urls):
        found = []
    to_do = "start this member, unless only this computer cannot reach it"
    return [row_of(CHECK, NOTICE, found, to_do)]


async def _failure(url: str) -> str:
    """Return the reason why a member is not healthy, or an empty text if it is healthy. A member
    with TLS is healthy if it accepts a connection."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                parts.hostname, parts.port or DEFAULT_PORT
            )
            try:
                if parts.scheme != "http":
                    return ""
                writer.write(b"GET /health HTTP/1.0\r\nHost: etcd\r\n\r\n")
                return "" if _HEALTHY in await reader.read(-1) else "is not healthy"
            finally:
                writer.close()
    except TimeoutError:
        return "does not respond"
    except OSError as error:
        return f"cannot be reached: {error.strerror or error}"
