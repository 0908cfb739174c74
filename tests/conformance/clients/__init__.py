"""Our client and the clients of four other makers behind one interface, so that all run the same
scripts."""

from __future__ import annotations

from tests.conformance.clients.aiokafka_client import Aiokafka
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.interface import Client, Received, Record, Refused
from tests.conformance.clients.java import Java
from tests.conformance.clients.kafka_python import KafkaPython
from tests.conformance.clients.ours import Ours

__all__ = [
    "Aiokafka",
    "Client",
    "Confluent",
    "Java",
    "KafkaPython",
    "Ours",
    "Received",
    "Record",
    "Refused",
]
