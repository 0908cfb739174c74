"""Load from librdkafka, in its own process: `python -m benchmarks.rdload MODE ADDRESS ...`.

The modes `produce` and `consume` pass messages to and from librdkafka in big batches, so that the
interpreter is not measured. The program prints one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import confluent_kafka as ck

BATCH = 500
DIFFERENT_BATCHES = 16
SETTLE_S = 0.3
WAIT_S = 60.0

_PRODUCER = {
    "acks": "all",
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 512 * 1024,
    "delivery.report.only.error": True,
}


class Lost(Exception):
    """The broker refused messages, or messages were not confirmed or not read in time."""


def _security(args: argparse.Namespace) -> dict[str, str]:
    """Return the settings of TLS, none without `--authority`."""
    if args.authority is None:
        return {}
    return {"security.protocol": "SSL", "ssl.ca.location": args.authority}


class Sender:
    """Sends messages of one size to the partitions of a topic in turn, as fast as the client
    accepts them."""

    def __init__(self, args: argparse.Namespace, settings: Mapping[str, Any]) -> None:
        self._topic: str = args.topic
        self._partitions: int = args.partitions
        self._size: int = args.size
        randomness = random.Random(1)
        self._batches = itertools.cycle(
            [{"value": randomness.randbytes(args.size)} for _ in range(BATCH)]
            for _ in range(DIFFERENT_BATCHES)
        )
        self._refused: list[str] = []
        self._turn = 0
        self.sent = 0
        linger = {"linger.ms": args.linger_ms}
        common = {"bootstrap.servers": args.address, **_PRODUCER, **linger, **_security(args)}
        self.producer = ck.Producer(common | dict(settings))

    def send_until(self, deadline: float, max_bytes: int = 0) -> None:
        """Send until a time of the monotonic clock, or until a number of bytes (0 means no
        limit)."""
        limit = self.sent + max_bytes // self._size
        while time.monotonic() < deadline and (not max_bytes or self.sent < limit):
            self._turn = (self._turn + 1) % self._partitions
            queued = self.producer.produce_batch(
                self._topic, next(self._batches), self._turn, on_delivery=self._on_delivery
            )
            self.sent += queued
            self.producer.poll(0 if queued == BATCH else 0.002)

    def flush(self) -> None:
        """Wait until the broker has confirmed all messages. Raises Lost if it refused one, or if
        one has no response after `WAIT_S`."""
        left = self.producer.flush(WAIT_S)
        if left or self._refused:
            raise Lost(f"{left} messages without a response, refused: {self._refused[:3]}")

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append(str(error))


def produce(args: argparse.Namespace) -> dict[str, float]:
    """Produce at full speed, idempotently or not. With --commit-ms, produce in transactions."""
    settings: dict[str, Any] = {}
    if args.commit_ms or args.idempotent:
        settings["enable.idempotence"] = True
    if args.commit_ms:
        settings["transactional.id"] = f"{args.topic}-{time.time_ns()}"
    sender = Sender(args, settings)
    if args.commit_ms:
        sender.producer.init_transactions(WAIT_S)
    send = _send_in_transactions if args.commit_ms else _send
    send(sender, args, SETTLE_S)
    settled, begin = sender.sent, time.monotonic()
    send(sender, args, args.seconds)
    seconds = time.monotonic() - begin
    messages = sender.sent - settled
    return {"messages_per_s": messages / seconds, "messages": sender.sent, "seconds": seconds}


def _send(sender: Sender, args: argparse.Namespace, seconds: float) -> None:
    sender.send_until(time.monotonic() + seconds, args.max_bytes)
    sender.flush()


def _send_in_transactions(sender: Sender, args: argparse.Namespace, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        sender.producer.begin_transaction()
        sender.send_until(now + args.commit_ms / 1000)
        sender.producer.commit_transaction(WAIT_S)


def transactions(args: argparse.Namespace) -> dict[str, float]:
    """Commit transactions of one message for each partition, one after another, by `--producers`
    producers at the same time."""
    ready = Barrier(args.producers)
    with ThreadPoolExecutor(args.producers) as pool:
        running = [
            pool.submit(_transactions_of_one, args, at, ready) for at in range(args.producers)
        ]
        found = [times.result() for times in running]
    rate = sum(len(took) / sum(took) for took in found)
    took = [time for times in found for time in times]
    return {"transactions_per_s": rate, "transactions": len(took)} | percentiles(took)


def _transactions_of_one(args: argparse.Namespace, number: int, ready: Barrier) -> list[float]:
    """Begin when all producers are ready. Return the times of one producer's transactions (s), at
    least one."""
    name = f"{args.topic}-{time.time_ns()}-{number}"
    sender = Sender(args, {"transactional.id": name})
    producer, value = sender.producer, bytes(args.size)
    producer.init_transactions(WAIT_S)
    ready.wait(WAIT_S)
    took: list[float] = []
    begin = now = time.monotonic()
    while now < begin + SETTLE_S + args.seconds or not took:
        producer.begin_transaction()
        for partition in range(args.partitions):
            producer.produce(args.topic, value, partition=partition)
        producer.commit_transaction(WAIT_S)
        if now >= begin + SETTLE_S:
            took.append(time.monotonic() - now)
        now = time.monotonic()
    return took


def percentiles(took: list[float]) -> dict[str, float]:
    """Return p50, p99 and p99.9 of some times (s)."""
    took.sort()
    return {
        "p50_us": took[len(took) // 2] * 1e6,
        "p99_us": took[len(took) * 99 // 100] * 1e6,
        "p999_us": took[len(took) * 999 // 1000] * 1e6,
    }


def single(args: argparse.Namespace) -> dict[str, float]:
    """Produce one message at a time. Each message waits for the confirmation of the previous
    one."""
    sender = Sender(args, {})
    randomness = random.Random(1)
    values = itertools.cycle([randomness.randbytes(args.size) for _ in range(BATCH)])
    took: list[float] = []
    begin = now = time.monotonic()
    while now < begin + SETTLE_S + args.seconds:
        sender.producer.produce(args.topic, next(values), partition=0)
        sender.flush()
        if now >= begin + SETTLE_S:
            took.append(time.monotonic() - now)
        now = time.monotonic()
    return percentiles(took)


def gap(args: argparse.Namespace) -> dict[str, float]:
    """Produce one message at a time. Return the longest time between two confirmations."""
    sender = Sender(args, {})
    longest = 0.0
    begin = last = time.monotonic()
    while last < begin + args.seconds:
        sender.producer.produce(args.topic, bytes(args.size), partition=0)
        sender.flush()
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return {"longest_gap_ms": longest * 1000}


def offered(args: argparse.Namespace) -> dict[str, float]:
    """Produce `--rate` messages a second to the partitions in turn, whatever the broker's pace.
    Return the times from a message's turn to its confirmation."""
    producer = ck.Producer(
        {
            "bootstrap.servers": args.address,
            **_PRODUCER,
            "delivery.report.only.error": False,
            "linger.ms": args.linger_ms,
        }
    )
    values = itertools.cycle([random.Random(1).randbytes(args.size) for _ in range(BATCH)])
    took: list[float] = []
    refused: list[str] = []

    def on_delivery(due: float, error: Any) -> None:
        if error is not None:
            refused.append(str(error))
        elif due >= begin + SETTLE_S:
            took.append(time.monotonic() - due)

    begin = time.monotonic()
    for number in range(int(args.rate * (SETTLE_S + args.seconds))):
        due = begin + number / args.rate
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        producer.produce(
            args.topic,
            next(values),
            partition=number % args.partitions,
            on_delivery=lambda error, _, due=due: on_delivery(due, error),
        )
    if producer.flush(WAIT_S) or refused:
        raise Lost(f"messages without a response, or refused: {refused[:3]}")
    return percentiles(took)


def consume(args: argparse.Namespace) -> dict[str, float]:
    """Read `--messages` messages of a topic from the start, `--passes` times."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": args.address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 256 * 1024,
            # The Fetch at the end of a pass must not delay the next pass.
            "fetch.wait.max.ms": 10,
            **_security(args),
        }
    )
    seconds = sum(_read_from_start(consumer, args) for _ in range(args.passes))
    consumer.close()
    count = args.passes * args.messages
    return {"messages_per_s": count / seconds, "messages": count, "seconds": seconds}


def _read_from_start(consumer: ck.Consumer, args: argparse.Namespace) -> float:
    """Read the topic. Return the seconds from the first messages to the last. Raises Lost if they
    take more than `WAIT_S`."""
    consumer.assign([ck.TopicPartition(args.topic, at, 0) for at in range(args.partitions)])
    count, begin, deadline = 0, 0.0, time.monotonic() + WAIT_S
    while count < args.messages:
        found = consumer.consume(10_000, 0.1)
        if time.monotonic() > deadline:
            raise Lost(f"{count} of {args.messages} messages in {WAIT_S} s")
        if found and not begin:
            begin = time.monotonic()
        count += len(found)
    return time.monotonic() - begin


MODES: Mapping[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "produce": produce,
    "single": single,
    "gap": gap,
    "offered": offered,
    "transactions": transactions,
    "consume": consume,
}


def main() -> None:
    """Parse the command line, run the load, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rdload")
    parser.add_argument("mode", choices=sorted(MODES))
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--max-bytes", type=int, default=0)
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0, help="messages a second")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--commit-ms", type=int, default=0)
    parser.add_argument("--idempotent", action="store_true")
    parser.add_argument("--linger-ms", type=float, default=50.0)
    parser.add_argument("--authority", help="connect with TLS, and trust this authority (PEM)")
    args = parser.parse_args()
    json.dump(MODES[args.mode](args), sys.stdout)
    print()


if __name__ == "__main__":
    main()
