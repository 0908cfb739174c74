"""The settings of a simulated broker."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from oncelog_server.config import Settings, load_settings
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.simulation.options import Options
from tests.simulation.workloads.rights import Rights


@cache
def _loaded(assignments: tuple[str, ...]) -> Settings:
    return load_settings(
        assignments=(
            "group.initial.rebalance.delay.ms=20",
            "group.min.session.timeout.ms=500",
            "connections.max.idle.ms=10000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
            "log.segment.delete.delay.ms=500",
            "auto.create.topics.enable=false",
            *assignments,
        )
    ).settings


def settings_of(options: Options, assignments: tuple[str, ...]) -> Settings:
    """Return the settings of a broker. `assignments`: further lines of a server.properties."""
    return replace(
        _loaded(assignments),
        oncelog_flush_on_ack=options.flush_on_ack,
        log_segment_bytes=options.segment_bytes,
        transaction_state_log_segment_bytes=max(options.segment_bytes, 300),
        # A group's metadata must fit into a segment.
        offsets_topic_segment_bytes=max(options.segment_bytes, 2_000),
        log_index_interval_bytes=options.index_interval_bytes,
        transaction_state_log_num_partitions=options.transaction_partitions,
        offsets_topic_num_partitions=options.offsets_partitions,
        log_flush_offset_checkpoint_interval_ms=options.checkpoint_ms,
        log_flush_interval_ms=options.flush_ms,
        log_cleaner_backoff_ms=options.cleaner_backoff_ms,
        log_cleaner_min_cleanable_ratio=options.cleanable_ratio,
        authorizer_class_name=STANDARD_AUTHORIZER if Rights.kind in options.workloads else "",
    )
