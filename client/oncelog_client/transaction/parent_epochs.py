"""The epochs of the parents of group commits. Each commit gives the parent another epoch, and the
application keeps the member that `init_producer` has returned."""

from __future__ import annotations

from oncelog_client.values import TransactionMember


class _Epochs:
    """A parent. `given`: the member that the application has. `ended`: the member of the last
    commit, None before the first one. `has_offsets`: offsets were sent after that commit."""

    __slots__ = ("ended", "given", "has_offsets", "newest")

    def __init__(
        self,
        given: TransactionMember,
        newest: TransactionMember,
        ended: TransactionMember | None = None,
    ) -> None:
        self.given = given
        self.newest = newest
        self.ended = ended
        self.has_offsets = False


class ParentEpochs:
    """Finds the member with the right epoch for a request of a parent."""

    def __init__(self) -> None:
        self._known: dict[str, _Epochs] = {}

    def for_offsets(self, parent: TransactionMember) -> TransactionMember:
        """Return the member that adds offsets to the next transaction of the parent."""
        known = self._find(parent)
        known.has_offsets = True
        return known.newest

    def for_commit(self, parent: TransactionMember) -> TransactionMember:
        """Return the member that ends the parent's transaction. If no offsets were sent after the
        last commit, the call repeats this commit, so it has the epoch of this commit."""
        known = self._find(parent)
        if known.ended is None or known.has_offsets:
            return known.newest
        return known.ended

    def committed(
        self, parent: TransactionMember, ended: TransactionMember, newest: TransactionMember
    ) -> None:
        """Note a commit of the member `ended`. `newest` has the epoch of the next transaction."""
        self._known[parent.transactional_id] = _Epochs(parent, newest, ended)

    def _find(self, parent: TransactionMember) -> _Epochs:
        known = self._known.get(parent.transactional_id)
        if known is None or known.given != parent:
            known = self._known[parent.transactional_id] = _Epochs(parent, parent)
        return known
