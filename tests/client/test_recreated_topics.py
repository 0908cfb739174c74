"""A topic is deleted and created again while a consumer reads it."""

from __future__ import annotations

from oncelog_client import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from tests.client.conftest import led
from tests.harness.client_reading import eventually

DEADLINE_MS = 30_000


async def create_again(admin: Admin, topic: str) -> None:
    await admin.delete_topics([topic])

    async def created() -> bool:
        try:
            await admin.create_topics([NewTopic(topic)])
        except KafkaError:  # the old topic still exists in a broker of Kafka
            return False
        return True

    await eventually(created)
    await eventually(lambda: led(admin, topic, 1))


async def values(consumer: Consumer, count: int) -> list[bytes | None]:
    """Return the values of the next `count` records, or fewer after a poll without a record."""
    found: list[bytes | None] = []
    while len(found) < count and (records := await consumer.poll(DEADLINE_MS)):
        found += [record.value for record in records]
    return found


async def test_a_position_after_the_end_of_the_new_log_is_reset(
    bootstrap: str, admin: Admin, name: str
) -> None:
    """The old position is out of range, so auto.offset.reset applies. A consumer that took the new
    log for a truncated old log would continue at its end, without the new records."""
    await admin.create_topics([NewTopic(name)])
    await eventually(lambda: led(admin, name, 1))
    async with Producer(bootstrap) as producer:
        for number in range(5):
            await producer.send_and_wait(name, b"old%d" % number)
    # The deleted topic must not be created automatically.
    async with Consumer(
        bootstrap, auto_offset_reset="earliest", allow_auto_create_topics=False
    ) as consumer:
        await consumer.assign([TopicPartition(name, 0)])
        assert len(await values(consumer, 5)) == 5
        await create_again(admin, name)
        async with Producer(bootstrap) as producer:
            # One batch: the consumer sees the new log with both records, or empty.
            sent = [await producer.send(name, value) for value in (b"new0", b"new1")]
            assert [(await future).offset for future in sent] == [0, 1]
        assert await values(consumer, 2) == [b"new0", b"new1"]
