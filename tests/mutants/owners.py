"""Named mutants of the principals of producer ids, and of the markers of operators."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_OWNERS: Final = "server/oncelog_server/cluster/producer_id_owners.py"
_TESTS: Final = (
    "tests/server/cluster/test_producer_id_owners.py",
    "tests/server/handlers/test_producer_id_owners.py",
)
_TAKEOVER: Final = ("tests/server/transaction/test_takeover.py",)

OWNER_MUTANTS: Final = (
    Mutant(
        "P1",
        "the owner of a producer id is not compared with the client",
        _OWNERS,
        "        if owner is None or owner == session.principal:\n",
        "        if owner is None or session.principal:\n",
        _TESTS,
    ),
    Mutant(
        "P2",
        "a new block of producer ids has no principal",
        "server/oncelog_server/cluster/producer_ids.py",
        "        puts = [Put(key, records.encode(ProducerIdBlockRecord(principal)))]\n",
        "        puts = []\n",
        _TESTS,
    ),
    Mutant(
        "P3",
        "the batches of a Produce are not checked",
        "server/oncelog_server/handlers/produce.py",
        "            append.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)\n",
        "            append.message = message\n",
        _TESTS[1:],
    ),
    Mutant(
        "P4",
        "the members of a group commit are not checked",
        "server/oncelog_server/handlers/end_txn.py",
        "        if not services.producer_id_owners.may_use(context, member.producer_id):\n",
        "        if not services.producer_id_owners.may_use(context, request.producer_id):\n",
        _TESTS[1:],
    ),
    Mutant(
        "P5",
        "a principal that takes a transactional id over continues with the producer id",
        "server/oncelog_server/transaction/takeover.py",
        "    return shard.owner_of_id(metadata.owner[0]) != principal\n",
        "    return False\n",
        _TAKEOVER,
    ),
    Mutant(
        "P6",
        "a kept transaction is ended with the producer id of another principal",
        "server/oncelog_server/transaction/commands/keep_prepared.py",
        "        next_producer_id=new_producer_id() if needs_id else owner_id,\n",
        "        next_producer_id=owner_id,\n",
        _TAKEOVER,
    ),
    Mutant(
        "P7",
        "an unassigned producer id of a principal counts as assigned",
        "server/oncelog_server/transaction/producer_ids.py",
        "        return first is None or producer_id < first\n",
        "        return True\n",
        ("tests/server/transaction/test_producer_ids.py",),
    ),
    Mutant(
        "P8",
        "an operator ends a part of a live transaction",
        "server/oncelog_server/transaction/operator_markers.py",
        "        return ErrorCode.INVALID_TXN_STATE if is_live else ErrorCode.NONE\n",
        "        return ErrorCode.NONE\n",
        ("tests/server/handlers/test_operator_markers.py",),
    ),
)
