"""testcontainers for Python. `kraft` and `zookeeper` are the two ways in which it starts
Confluent's image."""

from __future__ import annotations

import sys

from testcontainers.community.kafka import KafkaContainer


def main(image: str, mode: str) -> None:
    container = KafkaContainer(image)
    if mode == "kraft":
        container.with_kraft()
    with container:
        sys.stdout.write(f"ADDRESS {container.get_bootstrap_server()}\n")
        sys.stdout.flush()
        sys.stdin.read()


main(*sys.argv[1:])
