"""A kafka-python client that is closed while it connects leaves no socket that warns when it is
collected. Such a warning would fail a later test."""

from __future__ import annotations

import gc
import socket
import ssl
import warnings

import kafka
import pytest

from tests.conformance.clients import kafka_python

assert kafka_python  # its import replaces the sockets of kafka-python


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_client_that_is_closed_while_it_connects_warns_of_no_socket(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unraised: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda event: unraised.append(event.exc_value))
    context = ssl.create_default_context()
    with socket.create_server(("127.0.0.1", 0)) as silent, warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}",
            security_protocol=protocol,
            ssl_context=context if protocol == "SSL" else None,
            api_version=(2, 5),
        )
        consumer.subscribe(["a"])
        consumer.poll(100)
        consumer.close()
        del consumer
        gc.collect()
    assert not unraised
