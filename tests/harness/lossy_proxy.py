"""A proxy before a broker. It drops the responses that a test selects."""

from __future__ import annotations

from oncelog.testing.proxy import Direction, Drop, Frame, Proxy
from oncelog_protocol.apis import ApiKey


class LossyProxy(Proxy):
    """A lost response means that the broker has served the request, and that the connection breaks
    before the client gets the response."""

    def __init__(self) -> None:
        super().__init__()
        # For each API, the number of next responses to lose.
        self.to_lose: dict[ApiKey, int] = {}
        self.lost = 0
        self.always(self._loses)

    @property
    def advertised(self) -> dict[str, str]:
        """Return the setting with which a broker directs its clients to this proxy."""
        return {"advertised.listeners": f"PLAINTEXT://{self.address}"}

    def _loses(self, frame: Frame) -> Drop | None:
        left = self.to_lose.get(frame.api, 0)
        if frame.direction is Direction.REQUEST or not left:
            return None
        self.to_lose[frame.api] = left - 1
        self.lost += 1
        return Drop(cut=True)
