"""Names, types and defaults of Kafka 4.3's broker and topic settings, as the tests' own list."""

from __future__ import annotations

from pathlib import Path


def _rows(name: str) -> dict[str, tuple[str, str]]:
    """Return (type, default) by the setting's name. `name` is the file's name."""
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return {setting: (kind, default) for setting, kind, default in rows}


BROKER_SETTINGS = _rows("kafka_broker_settings.tsv")
TOPIC_DEFAULTS = _rows("kafka_topic_settings.tsv")
