"""docs/settings.md has exactly the text that `document` makes from the tables of settings."""

from __future__ import annotations

from pathlib import Path

from oncelog_server.settings.document import document
from oncelog_server.settings.model import KNOWN
from oncelog_server.settings.topics import INTERNAL, TOPIC_SETTINGS

PAGE = Path(__file__).resolve().parents[3] / "docs/settings.md"


def test_the_page_equals_the_text_made_from_the_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == document(), "python -m oncelog_server.settings.document > docs/settings.md"


def test_the_page_names_every_setting() -> None:
    text = document()
    assert all(f"`{name}`" in text for name in KNOWN | (TOPIC_SETTINGS.keys() - INTERNAL.keys()))
