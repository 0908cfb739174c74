"""docs/client.md: its programs run as they are written, and its tables have the real defaults."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from oncelog.testing.broker import Broker
from oncelog_client import serialization
from oncelog_client.core.consumer_config import ConsumerConfig
from oncelog_client.core.producer_config import ProducerConfig
from tests.harness.repository import ROOT

PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| ([\w ]+) \| ([\w-]+) \|", re.MULTILINE)
ADDRESS = "localhost:9092"


@pytest.mark.parametrize("program", PROGRAMS, ids=["objects", "sync", "traces"])
def test_a_program_of_the_page_prints_what_its_comments_say(program: str) -> None:
    assert ADDRESS in program
    expected = re.findall(r"print\(.*\)  # (.*)", program)
    with Broker() as broker:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program.replace(ADDRESS, broker.address)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize(
    ("title", "config"), [("Producer", ProducerConfig), ("Consumer", ConsumerConfig)]
)
def test_the_defaults_of_the_page_are_the_defaults_of_the_client(
    title: str, config: type[ProducerConfig] | type[ConsumerConfig]
) -> None:
    table = PAGE.split(f"| setting of `{title}` |")[1].split("\n\n")[0]
    rows = ROW.findall(table)
    assert len(rows) >= 6
    for name, kind, default in rows:
        assert str(config.defaults[name]) == default, name
        assert config.types[name].startswith(kind.split(" or ")[0]) or name == "acks", name


def test_the_table_of_serializers_is_complete() -> None:
    ends = ("Serializer", "Deserializer")
    classes = {name for name in vars(serialization) if name.endswith(ends)}
    assert classes == {name for name in re.findall(r"`(\w+)`", PAGE) if name.endswith(ends)}
