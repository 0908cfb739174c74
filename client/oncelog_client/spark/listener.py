"""A listener that reports each micro-batch as Spark sees it: lag and rates by partition."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from oncelog_client.spark.offsets.progress import BatchProgress, batch_progress, progress_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


def print_line(batch: BatchProgress) -> None:
    """Print a line on stderr."""
    sys.stderr.write(progress_line(batch) + "\n")
    sys.stderr.flush()


class ProgressListener(StreamingQueryListener):
    """`spark.streams.addListener(ProgressListener())` prints a line on stderr for each micro-batch
    of each query. Instead of printing, it calls `report` if given.

    Spark calls `report` in a thread of the driver's Python, after the batch is in the commit log.
    Spark logs exceptions of `report`, and the query continues.
    """

    def __init__(self, report: Callable[[BatchProgress], None] = print_line) -> None:
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: there is no progress yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._report(batch_progress(json.loads(event.progress.json)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: there is no progress."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: `awaitTermination` raises the reason."""
