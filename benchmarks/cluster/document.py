"""The result of a run on clusters."""

from __future__ import annotations

from benchmarks.cluster.rows import ROWS
from benchmarks.document import Document
from benchmarks.table import Result, results


class ClusterDocument(Document):
    """One run. Its limits are the same in both placements."""

    def results(self, place: str, baseline: str) -> list[Result]:
        """Return the rows of a placement beside Kafka."""
        return results(ROWS, self.rounds[place], baseline)
