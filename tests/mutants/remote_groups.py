"""Named mutants of the coordination of transaction groups by several brokers (KIP-447, early
draft)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TRANSACTION: Final = "server/oncelog_server/transaction"
_REMOTE: Final = f"{_TRANSACTION}/remote"
_MOVES: Final = ("tests/server/transaction/remote/test_moves.py",)
_GENERATIONS: Final = ("tests/server/transaction/remote/test_generations.py",)
_OFFSETS: Final = ("tests/server/transaction/remote/test_offset_commits.py",)

REMOTE_GROUP_MUTANTS: Final = (
    Mutant(
        "RG1",
        "a group takes an id after its claim was withdrawn",
        f"{_REMOTE}/operations.py",
        "        self._claims.withdraw(call.key, group_id)\n",
        "",
        _MOVES,
    ),
    Mutant(
        "RG2",
        "a claim does not compare the pointer",
        f"{_REMOTE}/operations.py",
        "pointer.group_id != group_id and pointer.offset != call.pointer_offset",
        "pointer.group_id != group_id and call.pointer_offset < 0",
        _MOVES,
    ),
    Mutant(
        "RG3",
        "a claim of the group that the pointer names writes no pointer",
        f"{_REMOTE}/claims.py",
        "    record = to_record(transactional_id, group_id, wall_ms)\n",
        "    known = shard.pointers.get(transactional_id)\n"
        "    if known is not None and known.group_id == group_id:\n"
        "        return Decision(SUCCESS)\n"
        "    record = to_record(transactional_id, group_id, wall_ms)\n",
        _MOVES,
    ),
    Mutant(
        "RG4",
        "the response of a deposed coordinator counts",
        f"{_REMOTE}/calls.py",
        "        if leader is None or result.coordinator_epoch < leader.epoch:\n",
        "        if leader is None:\n",
        _MOVES,
    ),
    Mutant(
        "RG5",
        "a group with an unreachable coordinator counts as one without members",
        f"{_TRANSACTION}/initialization.py",
        "            if found.code is not ErrorCode.NONE:\n"
        "                return TransactionResult(found.code)\n",
        "",
        _GENERATIONS,
    ),
    Mutant(
        "RG6",
        "an older producer's transaction is aborted in some shards only",
        f"{_REMOTE}/owners.py",
        "producer_ids, self._shard_count(), caller)",
        "producer_ids, len(self._transactions.runtime), caller)",
        _OFFSETS,
    ),
    Mutant(
        "RG7",
        "a late departure fences the producer that came after it",
        f"{_REMOTE}/operations.py",
        "        if NO_POINTER < call.pointer_offset < shard.pointers.claim_of(call.key):\n",
        "        if False:\n",
        _MOVES,
    ),
    Mutant(
        "RG8",
        "an id that joins a group is not fenced in its own shard",
        f"{_REMOTE}/claims.py",
        "    return together([gone], SUCCESS, also=(record,), effects=(pending,))\n",
        "    return Decision(SUCCESS, (record,), effects=(pending,), failed=gone.failed)\n",
        _MOVES,
    ),
    Mutant(
        "RG9",
        "a departure writes nothing where the id is unknown",
        "server/oncelog_server/transaction/groups.py",
        "        return (CoordinatorRecord(_key(transactional_id, group_id), None),)\n",
        "        return ()\n",
        _MOVES,
    ),
    Mutant(
        "RG10",
        "ids are initialized before their pointers are committed",
        "server/oncelog_server/transaction/coordinator.py",
        " and (self.runtime.is_loading or not self._are_pointed()):\n",
        " and self.runtime.is_loading:\n",
        _MOVES,
    ),
)
