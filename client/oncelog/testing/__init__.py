"""oncelog in the tests of an application: a real broker with faults and a clock.

`Broker` is a context manager for scripts and unittest. With pytest, the fixtures of
`oncelog.testing.plugin` do the same, and the fixture `oncelog` is a `Namespace`. A name is loaded
at its first use, because pytest imports this package in every run.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers take TYPE_CHECKING for true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .broker import QUICK, Broker, BrokerFailed
    from .clock import Clock
    from .faults import Fault, FaultRefused, Faults, Held, Kill, Switch
    from .namespace import Namespace, NoFaults
    from .topic import Topic

_HOMES = {
    "Broker": "broker",
    "BrokerFailed": "broker",
    "Clock": "clock",
    "Fault": "faults",
    "FaultRefused": "faults",
    "Faults": "faults",
    "Held": "faults",
    "Kill": "faults",
    "Namespace": "namespace",
    "NoFaults": "namespace",
    "QUICK": "broker",
    "Switch": "faults",
    "Topic": "topic",
}

__all__ = [
    "QUICK",
    "Broker",
    "BrokerFailed",
    "Clock",
    "Fault",
    "FaultRefused",
    "Faults",
    "Held",
    "Kill",
    "Namespace",
    "NoFaults",
    "Switch",
    "Topic",
]

if not TYPE_CHECKING:  # hidden from type checkers: with __getattr__, they would accept every name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return found


def __dir__() -> list[str]:
    return list(__all__)
