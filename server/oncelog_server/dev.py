"""`oncelog dev`: a broker for one computer and one session, which leaves no files behind."""

from __future__ import annotations

import sys
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from oncelog_protocol import __version__
from oncelog_server.serve import run_process

if TYPE_CHECKING:
    from oncelog_server.broker import Broker
    from oncelog_server.cluster.topics import NewTopic

LOOPBACK: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
DEFAULT_TOPIC: Final = "demo"
# Kafka waits 3 s for more members before a group's first rebalance. That suits groups of members
# that start together, but delays a single consumer.
SETTINGS: Final = ("group.initial.rebalance.delay.ms=0",)

EXAMPLES: Final = """\b
Examples:
  oncelog dev
  oncelog dev --port 0 --topic orders:3 --topic payments
  oncelog dev --set log.retention.ms=60000
"""

# A heading and lines for a shell, which are printed for each client. {address} and {topic} are
# filled in.
CLIENTS: Final = {
    "oncelog": """\
export ONCELOG_BOOTSTRAP_SERVER={address}
echo 'from oncelog' | oncelog produce {topic}
oncelog consume {topic} -e
""",
    "confluent-kafka (pip install confluent-kafka)": """\
python - <<'END'
from confluent_kafka import Producer
producer = Producer({{"bootstrap.servers": "{address}"}})
producer.produce("{topic}", "from confluent-kafka")
producer.flush()
END
""",
    "kafka-python (pip install kafka-python)": """\
python - <<'END'
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers="{address}")
producer.send("{topic}", b"from kafka-python").get(10)
producer.close()
END
""",
    "aiokafka (pip install aiokafka)": """\
python - <<'END'
import asyncio
from aiokafka import AIOKafkaProducer
async def main():
    async with AIOKafkaProducer(bootstrap_servers="{address}") as producer:
        await producer.send_and_wait("{topic}", b"from aiokafka")
asyncio.run(main())
END
""",
    "Java (properties, and Kafka's own tools)": """\
echo 'bootstrap.servers={address}' > client.properties
echo 'from Java' | kafka-console-producer.sh --bootstrap-server {address} \
--command-config client.properties --topic {topic}
""",
}


@click.command(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    help=f"Port; 0 picks a free one.  [default: {DEFAULT_PORT}]",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME[:PARTITIONS]",
    help=f"Create this topic; may be repeated.  [default: {DEFAULT_TOPIC}]",
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="A setting.")
@click.option("--debug", is_flag=True, help="Log more.")
def dev(port: int, topics: tuple[str, ...], assignments: tuple[str, ...], *, debug: bool) -> None:
    """Run a temporary broker.

    It listens on this computer only and keeps its data in a temporary folder, which is deleted when
    it stops (Ctrl-C). A group does not wait for more members before its first rebalance. The broker
    prints commands for five clients, to copy and paste. It does not read settings from files or the
    environment.
    """
    new_topics = [parse_topic(text) for text in topics or (DEFAULT_TOPIC,)]
    with TemporaryDirectory(prefix="oncelog-dev-", ignore_cleanup_errors=True) as folder:
        listeners = f"listeners=PLAINTEXT://{LOOPBACK}:{port}"
        code = run_process(
            {"assignments": (*SETTINGS, listeners, *assignments), "data": folder},
            debug=debug,
            announce=lambda broker: _announce(broker, new_topics),
        )
    sys.exit(code)


def parse_topic(text: str) -> tuple[str, int]:
    """Return the name and the number of partitions of `NAME[:PARTITIONS]`, 1 without a number.

    Raises click.UsageError if the number is invalid or below 1.
    """
    name, colon, number = text.partition(":")
    if not colon:
        return name, 1
    if not (number.isascii() and number.isdecimal() and 0 < len(number) < 7 and int(number)):
        raise click.UsageError(f"--topic {text!r} is not NAME or NAME:PARTITIONS, such as orders:3")
    return name, int(number)


async def _announce(broker: Broker, topics: list[tuple[str, int]]) -> str:
    """Create the topics and print how to use them. If a topic is refused, return the reason, else
    ""."""
    from oncelog_server.cluster.topics import NewTopic
    from oncelog_server.refusal import Refused

    new: list[NewTopic] = [NewTopic(name, partitions) for name, partitions in topics]
    for topic, outcome in zip(new, await broker.metadata.create_topics(new), strict=True):
        if isinstance(outcome, Refused):
            return f"--topic {topic.name}: {outcome}"
    _, host, port = broker.addresses[0]
    address = f"{host}:{port}"
    names = ", ".join(name if count == 1 else f"{name} ({count} partitions)"
                      for name, count in topics)  # fmt: skip
    click.echo(
        f"oncelog {__version__} listening on {address}, for this computer only\n"
        f"data in {broker.directory.path}, deleted at the end; topics: {names}\n"
        "Ctrl-C stops it. In another terminal:\n"
    )
    for title, lines in CLIENTS.items():
        click.echo(f"# {title}\n{lines.format(address=address, topic=topics[0][0])}")
    return ""
