"""The topic in which sinks that commit by record keep their state (`record_log`)."""

from __future__ import annotations

from typing import Final

# The broker treats the topic as an ordinary topic. Sources that subscribe to a pattern skip the
# topic by its name.
STATE_TOPIC: Final = "__spark_sink_state"
