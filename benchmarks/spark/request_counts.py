"""The number of requests of each API that a broker has served, from its metrics."""

from __future__ import annotations

import urllib.request
from collections import Counter

from oncelog_server.metrics import table as metrics
from tests.harness.scraping import Scraped

_TIMEOUT_S = 10.0


def requests_so_far(port: int) -> Counter[str]:
    """Return the counts by the name of the API, over all versions, since the broker's start."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
        page = Scraped(answer.read().decode())
    counts: Counter[str] = Counter()
    name = metrics.REQUESTS.name
    for labels in page.labels(name):
        counts[labels["request"]] += int(page.value(name, **labels))
    return counts
