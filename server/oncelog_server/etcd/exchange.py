"""One request to one member, and its response."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_server.etcd.members import Member
from oncelog_server.etcd_gateway.failures import failure_of


def _ignore() -> None:
    pass


async def exchange(
    member: Member,
    path: str,
    headers: dict[str, str],
    body: bytes,
    on_send: Callable[[], None] = _ignore,
) -> bytes:
    """Return the body of the response.

    `on_send` is called before the first byte is written: after that, the member may carry out the
    request. Raises the exceptions of `failure_of`. Raises OSError if the connection breaks.
    """
    connection = await member.connection()
    try:
        on_send()
        connection.send(path, headers, body)
        status = await connection.head()
        response = await connection.body()
    finally:
        member.release(connection)
    if status >= 400:
        raise failure_of(status, response)
    return response
