"""The clients for code without an event loop: `from oncelog_client.sync import Producer`.

Each class has the methods of the async class of the same name, and each call waits for its result.
`Producer.send` alone returns a `concurrent.futures.Future`. The clients of a process share one
event loop in a thread of its own. Several threads may use a `Producer` or an `Admin`, but only one
thread at a time a `Consumer`.
"""

from __future__ import annotations

from oncelog_client.sync.admin import Admin
from oncelog_client.sync.consumer import Consumer
from oncelog_client.sync.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
