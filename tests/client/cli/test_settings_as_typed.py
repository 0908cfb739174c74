"""Settings on the command line. An error repeats the setting as the user typed it, and a change
shows the former value."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from oncelog_client.cli.options import parse_settings, split_config
from tests.client.cli.conftest import QUICK, CommandLine
from tests.harness.broker import Oncelog


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        yield CommandLine(broker.address)


def test_an_unknown_setting_is_named_as_it_was_typed() -> None:
    with pytest.raises(click.UsageError, match=r"'fetch\.min'; did you mean fetch\.min\.bytes\?"):
        parse_settings(["fetch.min=1"])
    with pytest.raises(click.UsageError, match=r"'fetch_min'; did you mean fetch_min_bytes\?"):
        parse_settings(["fetch_min=1"])


def test_only_a_setting_of_integers_asks_for_a_whole_number() -> None:
    with pytest.raises(click.UsageError, match=r"linger\.ms=soon: not a number"):
        parse_settings(["linger.ms=soon"])
    with pytest.raises(click.UsageError, match=r"batch\.size=1\.5: not a whole number"):
        parse_settings(["batch.size=1.5"])


def test_the_error_for_a_duration_with_a_unit_has_the_milliseconds() -> None:
    with pytest.raises(click.UsageError, match=r"retention\.ms=1d: .*; 1d is 86400000"):
        split_config("retention.ms=1d")
    for pair in ("retention.ms=86400000", "retention.ms=-1", "compression.type=lz4", "x=1d"):
        assert split_config(pair) == tuple(pair.split("="))


def test_a_change_shows_the_former_and_the_new_value(here: CommandLine, name: str) -> None:
    here.create(name)
    alter = ("config", "--alter", "--topic", name)
    (default,) = [
        row["value"]
        for row in here.json("config", "--describe", "--topic", name, "--all")
        if row["name"] == "retention.ms"
    ]
    (row,) = here.json(*alter, "--add-config", "retention.ms=1000")
    assert (row["old_value"], row["value"]) == (default, "1000")
    (row,) = here.json(*alter, "--delete-config", "retention.ms")
    assert (row["old_value"], row["value"]) == ("1000", default)


def test_an_error_of_the_client_has_the_name_of_the_setting_with_dots(here: CommandLine) -> None:
    zip_codec = ("--producer-property", "compression.type=zip")
    assert "compression.type='zip'" in here.refused("produce", "t", *zip_codec, lines="a\n")
    never = ("--consumer-property", "auto.offset.reset=never")
    said = here.refused("consume", "t", *never)
    assert "`never` for configuration auto.offset.reset." in said
    small = ("--producer-property", "batch.size=-7")
    assert "batch.size=-7 is not" in here.refused("produce", "t", *small, lines="a\n")
