"""The claims of a broker that are in flight: its groups are about to take transactional ids."""

from __future__ import annotations


class PendingClaims:
    """Claims by transactional id and group. If another shard lets the id depart from the group
    meanwhile, the claim is withdrawn: the group must not take the id when the response arrives."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], object] = {}

    def begin(self, transactional_id: str, group_id: str) -> object | None:
        """Return a new claim, None if one is in flight."""
        key = (transactional_id, group_id)
        if key in self._claims:
            return None
        claim = self._claims[key] = object()
        return claim

    def end(self, transactional_id: str, group_id: str, claim: object) -> bool:
        """End a claim. Return False if it was withdrawn."""
        key = (transactional_id, group_id)
        if self._claims.get(key) is not claim:
            return False
        del self._claims[key]
        return True

    def withdraw(self, transactional_id: str, group_id: str) -> None:
        self._claims.pop((transactional_id, group_id), None)
