"""Chooses the back-end of a sink, which sends the requests to the broker. Tasks import this module,
so it imports no module of the driver."""

from __future__ import annotations

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.sink_options import SinkOptions

from .back_end import BackEnd


def back_end(
    options: SinkOptions, kind: CommitKind, sink_id: str, *, is_kept: bool = True
) -> BackEnd:
    """Return the back-end for this kind of commit. `is_kept` is False if the sink is used only once
    (`Plan.is_kept`)."""
    timeout_ms = options.transaction_timeout_ms
    if kind is CommitKind.GROUP:
        from .group_commit import GroupCommit

        return GroupCommit(options.admin, sink_id, timeout_ms)
    from .record_commit import RecordCommit

    return RecordCommit(options.admin, sink_id, timeout_ms, is_kept=is_kept)
