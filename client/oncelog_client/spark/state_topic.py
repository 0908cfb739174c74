"""The topic in which sinks keep their state on brokers that are no oncelog (`sink.record_log`)."""

from __future__ import annotations

from typing import Final

# Ordinary to the broker: sources that choose topics by a pattern leave it out by its name.
STATE_TOPIC: Final = "__spark_sink_state"
