"""A cluster with a network between the brokers, and between brokers and etcd, that can be cut."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from oncelog.testing.ports import reserve_port
from tests.harness.broker import Oncelog
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.relays import Relays

CLIENTS: Final = "CLIENTS"
BROKERS: Final = "BROKERS"
# All clients are on one host of the network.
CLIENT_HOST: Final = "clients"
MAPPED: Final = {
    "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{BROKERS}:PLAINTEXT",
    "inter.broker.listener.name": BROKERS,
}


def broker_host(broker_id: int) -> str:
    """Return the name of a broker's host in the network."""
    return f"broker-{broker_id}"


def etcd_host(number: int) -> str:
    """Return the name of the host of a member of etcd."""
    return f"etcd-{number}"


class RelayedBroker(Oncelog):
    """Clients connect to it through a relay, the other brokers through another one. It connects to
    each member of etcd through a relay of its own."""

    def __init__(self, directory: Path, settings: Mapping[str, str], relays: Relays) -> None:
        super().__init__(directory, {**settings, **MAPPED})
        self.port = reserve_port(self)
        self._broker_port = reserve_port(self)
        host = broker_host(int(settings["node.id"]))
        self._for_clients = relays.open(host, f"{self.host}:{self.port}", CLIENT_HOST)
        self._for_brokers = relays.open(host, f"{self.host}:{self._broker_port}")

    @property
    def address(self) -> str:
        return self._for_clients

    def _address_arguments(self) -> list[str]:
        ports = {CLIENTS: self.port, BROKERS: self._broker_port}
        listeners = ",".join(f"{name}://{self.host}:{port}" for name, port in ports.items())
        advertised = f"{CLIENTS}://{self._for_clients},{BROKERS}://{self._for_brokers}"
        return ["--set", f"listeners={listeners}", "--set", f"advertised.listeners={advertised}"]


class RelayedCluster(Cluster):
    """Three brokers. `relays` must be open."""

    def __init__(
        self,
        directory: Path,
        etcd: Etcd,
        relays: Relays,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._etcd = etcd
        self._relays = relays
        super().__init__(directory, etcd, settings=settings)

    def new_broker(self, directory: Path, settings: Mapping[str, str]) -> RelayedBroker:
        source = broker_host(int(settings["node.id"]))
        members = [
            self._relays.open(etcd_host(number), address, source)
            for number, address in enumerate(self._etcd.endpoints)
        ]
        endpoints = ",".join(f"http://{address}" for address in members)
        own = {**settings, "oncelog.etcd.endpoints": endpoints}
        return RelayedBroker(directory, own, self._relays)
