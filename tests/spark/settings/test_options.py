"""Option names may have any case. An error names the option, its value and the allowed values."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.settings.options import OPTIONS, OptionError, Options


def test_names_may_have_any_case_and_values_are_stripped() -> None:
    options = Options({"STARTINGoffsets": " earliest "})
    assert options.text("startingOffsets") == "earliest"
    assert "startingoffsets" in options
    assert "endingOffsets" not in options
    assert options.text("endingOffsets") is None


@pytest.mark.parametrize(
    ("text", "wanted_ms"),
    [
        ("15m", 900_000),
        ("15min", 900_000),
        ("250", 250),
        ("250ms", 250),
        ("2s", 2_000),
        ("1H", 3_600_000),
        ("1d", 86_400_000),
        ("1500us", 1),
    ],
)
def test_times_are_read_as_spark_reads_them(text: str, wanted_ms: int) -> None:
    assert Options({"maxTriggerDelay": text}).duration_ms("maxTriggerDelay", 7) == wanted_ms
    assert Options({}).duration_ms("maxTriggerDelay", 7) == 7


@pytest.mark.parametrize("text", ["", "m", "15 m", "1.5s", "-1s", "15y", "PT15M"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"^option maxTriggerDelay='.*': is no time"):
        Options({"maxTriggerDelay": text}).duration_ms("maxTriggerDelay", 7)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x", "is no whole number"),
        ("1.5", "is no whole number"),
        ("1_000", "is no whole number"),
        ("", "is no whole number"),
        (str(1 << 63), "is no whole number"),
        ("9" * 5_000, "is no whole number"),
        ("0", "must be 1 or more"),
        ("-5", "must be 1 or more"),
    ],
)
def test_a_number_that_is_not_whole_or_too_small_is_refused(text: str, wanted: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options({"minpartitions": text}).integer("minPartitions", least=1)
    assert str(caught.value) == f"option minPartitions={text!r}: {wanted}"


def test_a_flag_is_true_or_false() -> None:
    assert Options({"includeHeaders": "TRUE"}).boolean("includeHeaders", False)
    assert not Options({"includeHeaders": "false"}).boolean("includeHeaders", True)
    assert Options({}).boolean("includeHeaders", True)
    with pytest.raises(OptionError, match="is neither true nor false"):
        Options({"includeHeaders": "yes"}).boolean("includeHeaders", True)


def test_an_option_with_choices_accepts_only_these() -> None:
    choices = ("error", "latest")
    options = Options({"startingOffsetsByTimestampStrategy": "LATEST", "x": "never"})
    assert options.choice("startingOffsetsByTimestampStrategy", choices, "error") == "latest"
    assert Options({}).choice("x", choices, "error") == "error"
    with pytest.raises(OptionError, match="option x='never': is not one of error, latest"):
        options.choice("x", choices, "error")


def test_a_missing_required_option_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"^option sinkId: is needed$"):
        Options({}).required("sinkId")
    with pytest.raises(OptionError, match=r"^option sinkId='': is needed$"):
        Options({"sinkId": " "}).required("sinkId")


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", '{"a":1,"a":2}'])
def test_text_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r'^option assign=.* such as \{"t":\[0\]\}'):
        Options({"assign": text}).json_object("assign", '{"t":[0]}')


def test_the_remark_about_an_unknown_option_has_the_most_similar_name() -> None:
    remarks = Options({"maxOffsetPerTrigger": "3", "zzz": "", "kafka.zzz": "", "path": ""}).remarks
    assert [remark.partition(", ")[0] for remark in remarks] == [
        "there is no option 'maxoffsetpertrigger'",
        "there is no option 'zzz'",
    ]
    assert remarks[0].endswith("did you mean maxOffsetsPerTrigger?")


@given(st.sampled_from(sorted(OPTIONS)), st.text())
def test_options_and_their_errors_survive_pickling(name: str, value: str) -> None:
    options = pickle.loads(pickle.dumps(Options({name: value})))
    assert options.text(name) == value.strip()
    error = OptionError(name, value, "is: wrong")
    again = pickle.loads(pickle.dumps(error))
    assert (again.name, again.value, str(again)) == (name, value, str(error))
