"""Ask the transaction coordinator on another broker to add partitions to transactions, or to verify
them: AddPartitionsToTxn v5 over a link to each (KIP-890)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog_server.deferred import Deferred, then_ask
from oncelog_server.links.broker_link import BrokerLinks
from oncelog_server.links.gathered_requests import MAX_ELEMENTS_SENT, GatheredRequests
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import TransactionResult

ADD_PARTITIONS_VERSION: Final = 5
# The client retries, and this broker then sends another request to the coordinator.
UNREACHABLE: Final = TransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class _Question(NamedTuple):
    command: AddPartitions
    response: Deferred[TransactionResult]


class RemoteAdding:
    """Requests to the other brokers. At most one is in flight to each."""

    def __init__(self, links: BrokerLinks) -> None:
        self._links = links
        self._requests: dict[int, GatheredRequests[_Question]] = {}

    def add(
        self, broker_id: int, command: AddPartitions
    ) -> TransactionResult | Deferred[TransactionResult]:
        """Ask a broker. The code is COORDINATOR_NOT_AVAILABLE if the broker is not alive, or if the
        link breaks: the partitions may then have been added.

        A command with more elements than a request may have is divided by its partitions. Each part
        is sent after the success of the part before it, because the coordinator refuses a second
        request for a transaction while it writes the first. A refusal ends the command. The parts
        before it stay in the transaction, and its end writes a marker to their partitions.
        """
        return self._add(broker_id, _parts(command))

    def _add(
        self, broker_id: int, parts: Sequence[AddPartitions]
    ) -> TransactionResult | Deferred[TransactionResult]:
        result = self._ask(broker_id, parts[0])
        rest = parts[1:]
        if not rest:
            return result

        def added(first: TransactionResult) -> TransactionResult | Deferred[TransactionResult]:
            return first if first.code else self._add(broker_id, rest)

        return then_ask(result, added)

    def _ask(
        self, broker_id: int, command: AddPartitions
    ) -> TransactionResult | Deferred[TransactionResult]:
        link = self._links.to(broker_id)
        if link is None:
            self._requests.pop(broker_id, None)
            return UNREACHABLE
        requests = self._requests.get(broker_id)
        if requests is None or requests.link is not link:
            requests = GatheredRequests(link, ADD_PARTITIONS_VERSION, _request, _elements, _settle)
            self._requests[broker_id] = requests
        question = _Question(command, Deferred())
        requests.add(question)
        return question.response


def _elements(question: _Question) -> int:
    """Return the number of array elements of the question in a request: its transaction, its topics
    and their partitions."""
    partitions = question.command.partitions
    return 1 + len({topic for topic, _ in partitions}) + len(partitions)


def _parts(command: AddPartitions) -> Sequence[AddPartitions]:
    """Divide the command by its partitions, so that each part fits into a request."""
    if 1 + 2 * len(command.partitions) <= MAX_ELEMENTS_SENT:
        return (command,)
    parts: list[list[TopicPartition]] = []
    elements, last_topic = MAX_ELEMENTS_SENT, None
    for partition in sorted(command.partitions):
        elements += 1 if partition.topic == last_topic else 2
        if elements > MAX_ELEMENTS_SENT:
            parts.append([])
            elements = 3  # the transaction, the topic, the partition
        parts[-1].append(partition)
        last_topic = partition.topic
    return [replace(command, partitions=frozenset(part)) for part in parts]


def _request(questions: Sequence[_Question]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest([_transaction(question.command) for question in questions])


def _transaction(command: AddPartitions) -> AddPartitionsToTxnTransaction:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(command.partitions):
        by_topic.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        command.transactional_id,
        command.producer_id,
        command.producer_epoch,
        command.verify_only,
        [AddPartitionsToTxnTopic(name, indexes) for name, indexes in by_topic.items()],
        command.group_id,
    )


def _settle(questions: Sequence[_Question], response: AddPartitionsToTxnResponse | None) -> None:
    if response is None:
        results = [UNREACHABLE] * len(questions)
    elif response.error_code or len(response.results_by_transaction) != len(questions):
        code = _code(response.error_code) or ErrorCode.UNKNOWN_SERVER_ERROR
        results = [TransactionResult(code)] * len(questions)
    else:
        # The results have the order of the request.
        results = [_result(result) for result in response.results_by_transaction]
    for question, result in zip(questions, results, strict=True):
        question.response.complete(result)


def _result(result: AddPartitionsToTxnResult) -> TransactionResult:
    """Return the result of one transaction: the error that caused the refusal of all partitions,
    or NONE."""
    codes = [
        _code(partition.partition_error_code)
        for topic in result.topic_results
        for partition in topic.results_by_partition
    ]
    reasons = (
        code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)
    )
    return TransactionResult(next(reasons, ErrorCode.NONE))


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
