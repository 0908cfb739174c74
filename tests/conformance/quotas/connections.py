"""Random traces of new connections, for our limits of their rates and for Kafka's."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from oncelog_server.config import load_settings
from oncelog_server.network.new_connections import connection_rates
from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.quotas.windows import Windows

RATE: Final = "max.connection.creation.rate"
LISTENERS: Final = ("CLIENTS", "BROKERS")
ADDRESSES: Final = ("10.0.0.1", "10.0.0.2", "::1")
# The settings of a Kafka node that is only a broker. Our broker needs no controller.
COMMON: Final = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.voters": "2@localhost:9099",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "BROKERS",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


class Trace(msgspec.Struct):
    """The settings, the limits of addresses (None: of all others), and the connections: time (ms)
    before the connection, listener, address."""

    settings: dict[str, str]
    listeners: list[str]
    addresses: list[tuple[str | None, int]]
    connections: list[tuple[int, str, str]]

    def results(self) -> list[int]:
        """Return what our broker decides, in the form of the oracle."""
        settings = load_settings(
            assignments=[f"{name}={value}" for name, value in self.settings.items()]
        ).settings
        windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        now_ms = 5_000
        rates = connection_rates(settings)
        quotas = QuotaGate(lambda: now_ms, windows)
        quotas.follow(
            {
                entity_of([("ip", address)]): {Quota.CONNECTION: float(limit)}
                for address, limit in self.addresses
            }
        )
        found = []
        for delay_ms, listener, address in self.connections:
            now_ms += delay_ms
            wait_ms = 0 if rates is None else rates.record(listener, now_ms)
            now_ms += wait_ms
            throttle_ms = quotas.after_connection(address, now_ms)
            if throttle_ms and rates is not None:
                rates.take_back(listener, now_ms)
            found += [wait_ms, throttle_ms]
        return found


def trace(seed: int) -> Trace:
    """Return a trace of about eighty connections, to one listener or two."""
    chance = Random(seed)
    listeners = list(LISTENERS[chance.randrange(2) :])
    window_s = chance.choice([1, 1, 2, 10])
    settings: dict[str, Any] = COMMON | {
        "listeners": ",".join(f"{name}://:{9092 + at}" for at, name in enumerate(listeners)),
        "quota.window.num": chance.choice([1, 2, 3, 11, 11]),
        "quota.window.size.seconds": window_s,
    }
    if chance.random() < 0.6:
        settings[RATE] = _limit(chance)
    for name in listeners:
        if chance.random() < 0.5:
            settings[f"listener.name.{name.lower()}.{RATE}"] = _limit(chance)
    limited = chance.sample([None, *ADDRESSES], chance.randrange(4))
    return Trace(
        {name: str(value) for name, value in settings.items()},
        listeners,
        [(address, chance.randint(1, 10)) for address in limited],
        [
            (_delay(chance, window_s * 1000), chance.choice(listeners), chance.choice(ADDRESSES))
            for _ in range(chance.randrange(40, 120))
        ],
    )


def _limit(chance: Random) -> int:
    return chance.choice([0, 1, 1, 2, 5, 10, 20])


def _delay(chance: Random, window_ms: int) -> int:
    """Return a delay in ms: often none, at times exactly a window, at times longer than all."""
    return chance.choice(
        [0, 0, 1, chance.randrange(window_ms // 4), chance.randrange(window_ms), window_ms]
        + [chance.randrange(14 * window_ms)] * chance.choice([0, 0, 1])
    )
