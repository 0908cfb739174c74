"""Which back-end a batch has. Tasks ask here too: nothing of the driver's is imported."""

from __future__ import annotations

from .back_end import BackEnd
from .messages import CommitKind
from .sink_options import SinkOptions


def back_end(
    options: SinkOptions, kind: CommitKind, sink_id: str, *, is_kept: bool = True
) -> BackEnd:
    """`is_kept`: as `Plan.is_kept`."""
    timeout_ms = options.transaction_timeout_ms
    if kind is CommitKind.GROUP:
        from .group_commit import GroupCommit

        return GroupCommit(options.admin, sink_id, timeout_ms)
    from .record_commit import RecordCommit

    return RecordCommit(options.admin, sink_id, timeout_ms, is_kept=is_kept)
