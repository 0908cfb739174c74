"""Requests to the cluster from the driver's Python processes. A `Catalogue` sends the requests, and
stays connected between them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from oncelog_client.errors import KafkaError
from oncelog_client.spark.background import background
from oncelog_client.spark.offsets.offsets import AtSink
from oncelog_client.spark.source.plan import data_loss
from oncelog_client.spark.source.plan.source_options import SourceOptions
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode

from .catalogue import Catalogue, CatalogueKey

T = TypeVar("T")

_log = logging.getLogger(__name__)


def ask(options: SourceOptions, work: Callable[[Catalogue], Coroutine[Any, Any, T]]) -> T:
    """Return what `work` returns for a catalogue. Raises TimeoutError if the catalogue takes
    longer than `CatalogueKey.timeout_s`, and the errors of `work`."""
    key = CatalogueKey(
        options.admin, options.subscription, options.fetch_retries, options.fetch_retry_interval_ms
    )

    async def asked() -> T:
        catalogue: Catalogue = await background().client(key, lambda: Catalogue(key))
        return await work(catalogue)

    try:
        return background().run(asked(), key.timeout_s)
    except KafkaError as error:
        _explain(error, options)
        raise


def _explain(error: KafkaError, options: SourceOptions) -> None:
    """Add to the error of a missing right the rights that the source needs."""
    # Imported here: few queries need it, and each query starts several processes.
    from oncelog_client.spark.settings.rights import explain_refusal
    from oncelog_client.spark.source.plan.source_rights import source_rights

    start = options.start
    rights = source_rights(
        sorted(options.subscription.named) or [""],
        group=options.commit_to_group,
        sink_id=start.sink_id if isinstance(start, AtSink) else None,
    )
    explain_refusal(error, rights)


async def first_ends(catalogue: Catalogue, options: SourceOptions) -> dict[TopicPartition, int]:
    """Return the ends of all partitions of a query that begins. Raises KafkaError if a topic or
    partition in the options does not exist, because the name may be misspelled."""
    subscription = options.subscription
    for attempt in range(options.fetch_retries):
        if attempt:
            await asyncio.sleep(options.fetch_retry_interval_ms / 1_000)
        ends = await catalogue.ends(read_committed=options.read_committed)
        missing = [
            *sorted(subscription.topics - {end.topic for end in ends}),
            *map(str, sorted(subscription.partitions - ends.keys())),
        ]
        if not missing:
            return ends
    raise KafkaError(
        f"there is no {', '.join(missing)} at {options.admin.bootstrap_servers}",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


def report(losses: Iterable[str], *, fail: bool) -> None:
    """Raise DataLossError if there are losses and `fail` (the option `failOnDataLoss`) is set.
    Otherwise log each loss as a warning."""
    found = list(losses)
    if found and fail:
        raise data_loss.error(found)
    for loss in found:
        _log.warning("%s", loss)
