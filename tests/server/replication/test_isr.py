"""Real brokers change the ISR of a partition: a follower that stops leaves, and joins again."""

from __future__ import annotations

from pathlib import Path

from oncelog_client.producer import Producer
from oncelog_protocol.errors import ErrorCode
from tests.server.log.driver import NOW_MS, batch
from tests.server.replication.brokers import TOPIC, cluster, cut_off

LAG_MS = 400


async def test_a_follower_that_stops_leaves_the_isr_and_joins_when_it_has_caught_up(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1, 2, 3, replica_lag_time_max_ms=LAG_MS) as found:
        await found.create((1, 2, 3))
        led = found.replica(1)
        led.append(batch(), now_ms=NOW_MS)
        await found.replicated(1, 2, 3)
        await found.until(lambda: sorted(found.image().isr) == [1, 2, 3])
        cut_off(found, 3)
        led.append(batch(), now_ms=NOW_MS)
        codes: list[ErrorCode] = []
        led.when_committed(2, codes.append)
        assert codes == []
        await found.until(lambda: codes)
        assert codes == [ErrorCode.NONE]
        # A pause of this process can also take follower 2 out of the ISR, until its next fetch.
        await found.until(lambda: sorted(found.image().isr) == [1, 2])
        await found.kill(3)
        await found.start_one(3)
        await found.until(lambda: sorted(found.image().isr) == [1, 2, 3])
        await found.replicated(1, 2, 3)


async def test_the_last_member_of_the_isr_stays(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, replica_lag_time_max_ms=LAG_MS) as found:
        await found.create((1, 2), **{"min.insync.replicas": "2"})
        led = found.replica(1)
        cut_off(found, 2)
        led.append(batch(), now_ms=NOW_MS)
        codes: list[ErrorCode] = []
        led.when_committed(1, codes.append)
        await found.until(lambda: found.image().isr == (1,))
        await found.until(lambda: led.replicas.is_under_min_isr)
        assert (led.high_watermark, codes) == (0, [])
        await found.kill(2)
        await found.start_one(2)
        await found.until(lambda: codes)
        assert (sorted(found.image().isr), codes) == ([1, 2], [ErrorCode.NONE])


async def test_s16_another_broker_leads_if_a_flush_of_the_leader_fails(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3) as found:
        await found.create((1, 2, 3))
        await found.until(lambda: set(found.image().isr) == {1, 2, 3})
        found.replica(1).fail("sync: Input/output error")
        await found.until(lambda: found.image().leader == 2)
        assert set(found.image().isr) == {2, 3}
        async with Producer(found.addresses, acks="all", linger_ms=0) as producer:
            await producer.send_and_wait(TOPIC, b"v", partition=0)
