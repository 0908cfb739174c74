"""The generated source is what the performance of the request path stands on."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.codegen import generate_decoder, generate_encoder
from oncelog_protocol.features import FIRST_OWN_TAG, OWN_TAGS
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.messages.produce import ProduceResponse
from tests.protocol.drawing import CASES, FLEXIBLE


def source_of(made: Any) -> str:
    source: str = made.source
    return source


def test_fields_of_fixed_size_and_the_length_after_them_are_one_struct_call() -> None:
    source = source_of(generate_decoder(FetchRequest, 11))
    assert "unpack_from_iiiibiii(b, p)" in source  # seven fields and the count of topics
    assert "unpack_from_iiqqi(b, p)" in source  # a partition
    source = source_of(generate_encoder(ProduceResponse, 7))
    assert "pack_ihqqq(" in source
    assert "pack_i(" in source


def test_an_empty_section_of_tagged_fields_goes_with_the_fields_before_it() -> None:
    assert "pack_qqB(" in source_of(generate_encoder(FetchResponse, 12))  # aborted transactions
    assert "unpack_from_qqB(" in source_of(generate_decoder(FetchResponse, 12))


def test_no_generated_code_calls_back_into_the_schema() -> None:
    for cls, version in CASES:
        for generate in (generate_decoder, generate_encoder):
            assert "schema" not in source_of(generate(cls, version)).lower().replace("_schema", "")


@pytest.mark.parametrize("generate", [generate_decoder, generate_encoder])
def test_the_source_has_no_name_twice(generate: Any) -> None:
    """A name assigned for one array must not be read for another: fresh names never repeat."""
    for cls, version in FLEXIBLE:
        lines = source_of(generate(cls, version)).splitlines()
        loops = [line.split()[1] for line in lines if line.strip().startswith("for q")]
        assert len(loops) == len(set(loops))


def test_our_own_tags_stay_clear_of_kafkas() -> None:
    assert all(tag >= FIRST_OWN_TAG for tag in OWN_TAGS.values())
    assert len(set(OWN_TAGS.values())) == len(OWN_TAGS)
