from __future__ import annotations

import logging

import structlog

from tests.simulation.log_capture import LogCapture, captured

CLIENT = logging.getLogger("oncelog_client.io.cluster")


def test_records_of_clients_stand_between_the_events_of_brokers() -> None:
    times = iter(range(1_000_000, 4_000_000, 1_000_000))
    with captured(LogCapture(lambda: next(times))) as capture:
        structlog.get_logger().info("broker started", node_id=1)
        CLIENT.warning("cannot reach a broker: %s", "broker:9092")
        structlog.get_logger().info("broker stopped", clean=True)
    assert list(capture.lines()) == [
        "   1.0000 info    broker started {'node_id': 1}",
        "   2.0000 warning cannot reach a broker: broker:9092 {}",
        "   3.0000 info    broker stopped {'clean': True}",
    ]
    assert next(capture.lines(last=1)).endswith("broker stopped {'clean': True}")
    # These decide which rare states a run has met: only brokers count.
    assert capture.counts == {"broker started": 1, "broker stopped": 1}
    assert [event["event"] for _, _, event in capture.events] == list(capture.counts)


def test_records_of_clients_are_taken_only_during_a_run() -> None:
    handlers = list(logging.getLogger("oncelog_client").handlers)
    with captured(LogCapture(lambda: 0)):
        # Without a handler, logging would print each record.
        assert CLIENT.hasHandlers()
        assert logging.getLogger("oncelog_client").handlers != handlers
    assert logging.getLogger("oncelog_client").handlers == handlers
