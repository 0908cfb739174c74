"""Every public name of the Python API has a docstring."""

from __future__ import annotations

from tests.docs.public_names import public_names


def test_every_public_name_has_a_docstring() -> None:
    names = public_names()
    assert len(names) > 200
    bare = [name.full for name in names if not (name.docstring or "").strip()]
    assert not bare


def test_the_names_include_methods_of_bases_that_are_not_public() -> None:
    full = {name.full for name in public_names()}
    assert {
        "oncelog.Producer.send",
        "oncelog.KafkaError",
        "oncelog.testing.Broker.kill",
        "oncelog_client.otel.context_of",
        "oncelog_client.serialization.LongSerializer.serialize",
        "oncelog_client.sync.Consumer.start",
    } <= full
    assert "oncelog_client.otel.Consumer.seek" not in full
