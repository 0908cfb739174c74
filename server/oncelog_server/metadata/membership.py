"""This broker as a member of the cluster: its registration, and the lease that keeps it.

The event loop itself renews the lease, never a thread: a broker with a blocked loop must be fenced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.authority import Authority
from oncelog_server.cluster.image import BrokerImage, ClusterImage
from oncelog_server.cluster.members import Registration, broker_image, registration
from oncelog_server.cluster.registration import NewRegistration, register, with_controller
from oncelog_server.cluster.store import (
    Created,
    Entry,
    Lease,
    LeaseEnded,
    LostMetadata,
    MetadataStore,
    TxnResult,
    UnknownOutcome,
    Write,
)
from oncelog_server.metadata.exit_monitor import NO_LEASE, ExitMonitor
from oncelog_server.metadata.founding import features_of
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.refusal import Refused
from oncelog_server.settings.listeners import Endpoint
from oncelog_server.settings.model import Settings

# Pause before the next look at a broker id that another broker has.
CONFLICT_PAUSE_S: Final = 0.5
# Pause after a failed renewal of the registration, from the second failure in a row on.
RETRY_S: Final = 0.5

_log = structlog.get_logger("oncelog.cluster")


class IdInUse(OSError):
    """Another broker with this broker's id is registered."""


class DirectoryFacts(msgspec.Struct, frozen=True):
    """The data directory with which a broker registers. `NewRegistration` explains the fields."""

    id: str = ""
    boot_id: str = ""
    clean_stop_epoch: int = 0


class Membership:
    """The registration of this broker. Call `register` first, and `stop` at the end.

    `boottime_ms` is the clock of `authority`. `exit_monitor` gets each lease before the
    registration has it. If only this process uses the store (`is_alone`), no timer runs: the lease
    cannot end before the broker does.

    If the image no longer follows the store, this broker would not see that others lead. So it
    leaves the cluster until its restart. If only this process uses the store, no other broker can
    lead, and this broker serves with the image that it has.
    """

    def __init__(
        self,
        store: MetadataStore,
        follower: ImageFollower,
        settings: Settings,
        *,
        new_uuid: Callable[[], bytes],
        boottime_ms: Callable[[], int],
        exit_monitor: ExitMonitor | None = None,
    ) -> None:
        self.authority = Authority()
        self.broker_epoch = 0
        self._store = store
        self._follower = follower
        self._settings = settings
        self._broker_id = settings.node_id
        self._new_uuid = new_uuid
        self._boottime_ms = boottime_ms
        self._exit_monitor = exit_monitor
        self._lease: Lease | None = None
        self._new: NewRegistration | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._wakes = asyncio.Event()
        follower.on_failure = self._wakes.set
        # The last response of the store to this broker's renewals, and whether one has failed since
        # then.
        self._heard_ms = boottime_ms()
        self._is_unheard = False

    @property
    def lease_id(self) -> int:
        """Return the id of the lease for further keys of this broker."""
        return NO_LEASE if self._lease is None else self._lease.id

    @property
    def is_alone(self) -> bool:
        """Return True if only this process uses the store. Its leases then end with the process."""
        return self._lease is not None and self._lease.ttl_ms == 0

    @property
    def store_silence_ms(self) -> int:
        """Return the time since the store responded last, 0 while it responds to the renewals of
        this broker's registration."""
        return max(self._boottime_ms() - self._heard_ms, 1) if self._is_unheard else 0

    @property
    def is_valid(self) -> bool:
        """Return True if this broker may act on its registration."""
        return self.authority.valid(self._boottime_ms())

    def epoch_in(self, image: ClusterImage) -> int:
        """Return the epoch of this process's registration in an image, 0 if the image has none.

        An image may have the registration before `register` gets the store's response.
        """
        broker = image.brokers.get(self._broker_id)
        if broker is None or self._new is None or broker.incarnation != self._new.incarnation:
            return 0
        return broker.epoch

    async def await_free_id(self) -> None:
        """Wait until no broker with this broker's id is registered. Call this before a new data
        directory is written: the id may be that of another broker by mistake.

        Raises IdInUse after `initial.broker.registration.timeout.ms`. Raises OSError if the store
        fails.
        """
        key = records.broker_key(self._broker_id)
        conflict = _Conflict(self._settings, self._broker_id)
        while (entry := await self._store.get(key)) is not None:
            await conflict.wait(broker_image(self._broker_id, entry))

    async def register(self, endpoints: Sequence[Endpoint], directory: DirectoryFacts) -> None:
        """Register this broker, and keep the registration until `stop`.

        Raises IdInUse if another data directory has the broker's id. Raises OSError if the store
        fails, and Refused if the image does not follow the store.
        """
        self._new = NewRegistration(
            self._broker_id,
            directory.id,
            uuid_to_string(self._new_uuid()),
            tuple(
                records.EndpointRecord(endpoint.listener, endpoint.host, endpoint.port)
                for endpoint in endpoints
            ),
            self._settings.broker_rack,
            features_of(self._settings),
            directory.boot_id,
            directory.clean_stop_epoch,
            self._settings.oncelog_flush_on_ack,
        )
        if self._exit_monitor is not None:
            self._exit_monitor.start()
        await self._register(self._new, takes_over=True)
        self._heard()
        self._follower.subscribe(lambda old, new, delta: self._follow(new))
        if not self.is_alone:
            self._keeping = asyncio.create_task(self._keep(), name="membership")

    async def stop_keeping(self) -> None:
        """Stop the renewal of the registration."""
        self._new = None
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])

    async def stop(self) -> None:
        """Leave the cluster. Raises OSError if the store fails: the exit monitor then ends the
        lease when this process has ended."""
        await self.stop_keeping()
        self.authority.end()
        if self._lease is not None:
            await self._lease.revoke()
        if self._exit_monitor is not None:
            await self._exit_monitor.close()

    # --- registration

    async def _present_cluster(self) -> Created:
        """Return the condition that the store still has the cluster of the image. Raises
        LostMetadata if it does not."""
        image = self._follower.image
        entry = await self._store.get(records.CLUSTER)
        restored = await self._store.get(records.RESTORED)
        restored_at = 0 if restored is None else restored.mod_revision
        if (
            entry is None
            or restored_at != image.restored_at
            or records.decode(records.ClusterRecord, entry.value).id != image.cluster_id
        ):
            raise LostMetadata("the metadata in etcd was lost or restored while this broker ran")
        return Created(records.CLUSTER, entry.create_revision)

    async def _register(
        self, new: NewRegistration, *, takes_over: bool, cluster: Created | None = None
    ) -> None:
        """Register, and wait for the image. If an earlier process with the same data directory is
        still registered, end its lease: the lock on the directory proves that it is dead.

        Without `takes_over`, a registration of another process stays. Two processes with copies of
        one directory would otherwise end each other's leases without end.
        """
        conflict = _Conflict(self._settings, new.broker_id, new.directory_id)
        while (taken := await self._try(new, cluster)) is not None:
            is_ours = takes_over or taken.incarnation == new.incarnation
            if is_ours and taken.lease_id and taken.directory_id == new.directory_id != "":
                _log.info("an earlier registration ends", broker=new.broker_id, epoch=taken.epoch)
                await self._store.revoke_lease(taken.lease_id)
                continue
            await conflict.wait(taken, is_final=self.is_alone)

    async def _try(self, new: NewRegistration, cluster: Created | None) -> BrokerImage | None:
        """Make one attempt. Return the broker that has the id, None after a success.

        Raises LostMetadata if the condition `cluster` does not hold. A stale last registration, or
        a lease that ends meanwhile, leads to another attempt.
        """
        last = self._follower.image.registrations.get(new.broker_id)
        elects = True
        while True:
            sent_ms = self._boottime_ms()
            lease = await self._store.lease(self._settings.broker_session_timeout_ms)
            self._lease = lease
            if self._exit_monitor is not None:
                self._exit_monitor.keep(lease.id)
            write = register(last, new, lease.id)
            if cluster is not None:
                write = Write((*write.compare, cluster), write.operations)
            if elects and lease.ttl_ms == 0:
                # No other broker uses this store, so the election needs no transaction of its own.
                write = with_controller(write, new.broker_id, lease.id)
            result: TxnResult | None = None
            try:
                result = await self._store.txn(write.compare, write.operations)
            except LeaseEnded:
                continue
            except UnknownOutcome as unknown:
                _log.info("the outcome of the registration is unknown", reason=str(unknown))
            if result is not None and result.succeeded:
                self.broker_epoch = result.revision
                if self._exit_monitor is not None:
                    self._exit_monitor.registered()
                # An older image may name leaders that have been replaced since this broker's last
                # registration ended.
                await self._follower.reached(result.revision)
                self.authority.renew(sent_ms, lease.ttl_ms)
                return None
            await self._give_back(lease)
            elects = False
            found = await self._found(new) if result is None else result.current
            broker, lasting = found[:2]
            if cluster is not None:
                await self._present_cluster()
            if broker is not None:
                return broker_image(new.broker_id, broker)
            last = _registration(new.broker_id, lasting)

    async def _found(self, new: NewRegistration) -> tuple[Entry | None, ...]:
        return (
            await self._store.get(records.broker_key(new.broker_id)),
            await self._store.get(records.registration_key(new.broker_id)),
        )

    async def _give_back(self, lease: Lease) -> None:
        """End a lease that is not needed any more. It would end by itself."""
        with suppress(OSError):
            await lease.revoke()
            if self._exit_monitor is not None:
                self._exit_monitor.keep(NO_LEASE)

    # --- the lease

    def _follow(self, image: ClusterImage) -> None:
        """Look at the lease as soon as the image lacks the registration."""
        if self._new is None or self.epoch_in(image) or image.revision < self.broker_epoch:
            return
        self._wakes.set()
        if self._keeping is None:  # no other broker can have ended the lease, but a test can
            self._keeping = asyncio.create_task(self._keep(), name="membership")

    async def _keep(self) -> None:
        interval_s = self._settings.broker_heartbeat_interval_ms / 1000
        failures = 0
        while True:
            # The first failure is retried at once: the store then uses another member of etcd, and
            # a timeout may have left little of the lease's time.
            pause_s = RETRY_S if failures > 1 else 0 if failures else interval_s
            try:
                async with asyncio.timeout(pause_s):
                    await self._wakes.wait()
            except TimeoutError:
                pass
            self._wakes.clear()
            if self._follower.failure is not None:
                await self._leave(self._follower.failure)
                return
            try:
                await self._renew()
                self._heard()
                failures = 0
            except LostMetadata as lost:
                await self._leave(lost)
                return
            except (OSError, Refused) as error:
                if not failures:
                    _log.warning("the registration could not be renewed", reason=str(error))
                failures += 1
                # IdInUse and Refused come from responses of the store.
                self._is_unheard = not isinstance(error, IdInUse | Refused)
            except Exception:  # a defect must not end the renewals
                _log.exception("the registration could not be renewed")
                failures += 1

    async def _leave(self, failure: BaseException) -> None:
        """Leave the cluster until the restart of this process: the image is not that of the store,
        or no longer advances."""
        self._new = None
        is_lost = isinstance(failure, LostMetadata)
        self._is_unheard = is_lost  # no later response can come from the same store
        try:
            self.authority.end()
        except Exception:  # a defect must not keep the lease
            _log.exception("the end of the authority failed")
        if is_lost:
            # A recovery of the metadata may be in progress, so this broker changes nothing in the
            # store.
            _log.error("the metadata of the cluster is lost", reason=str(failure))
            return
        _log.error(
            "the broker leaves the cluster, because it does not follow the metadata: restart it",
            broker=self._broker_id,
            reason=str(failure),
        )
        if self._lease is not None:
            await self._give_back(self._lease)

    async def _renew(self) -> None:
        """Renew the lease, or register again if it has ended. Raises OSError."""
        assert self._lease is not None
        assert self._new is not None
        sent_ms = self._boottime_ms()
        try:
            if self.authority.valid_until_ms < 0:
                raise LeaseEnded("the last attempt to register again failed")
            self.authority.renew(sent_ms, await self._lease.keep_alive())
            return
        except LeaseEnded:
            self.authority.end()
        _log.warning("the registration has ended: register again", broker=self._broker_id)
        cluster = await self._present_cluster()
        # The process still has every record of its last registration.
        again = msgspec.structs.replace(self._new, clean_stop_epoch=self.broker_epoch)
        await self._register(again, takes_over=False, cluster=cluster)
        _log.info("the broker is registered again", epoch=self.broker_epoch)

    def _heard(self) -> None:
        """Note a response of the store."""
        self._heard_ms = self._boottime_ms()
        self._is_unheard = False


def _registration(broker_id: int, entry: Entry | None) -> Registration | None:
    return None if entry is None else registration(broker_id, entry)


class _Conflict:
    """The wait for the end of another broker's registration with the same id."""

    def __init__(self, settings: Settings, broker_id: int, directory_id: str = "") -> None:
        timeout_s = settings.initial_broker_registration_timeout_ms / 1000
        self._deadline_s = asyncio.get_running_loop().time() + timeout_s
        self._broker_id = broker_id
        self._directory_id = directory_id
        self._is_logged = False

    async def wait(self, taken: BrokerImage, *, is_final: bool = False) -> None:
        """Pause before the next look. The first call logs a warning. Raises IdInUse at the end of
        the timeout, or at once if `is_final`."""
        left_s = self._deadline_s - asyncio.get_running_loop().time()
        reason = self._refusal(taken)
        if is_final or left_s <= 0:
            raise IdInUse(reason)
        if not self._is_logged:
            self._is_logged = True
            _log.warning("the broker's id is in use", reason=reason)
        await asyncio.sleep(min(CONFLICT_PAUSE_S, left_s))

    def _refusal(self, taken: BrokerImage) -> str:
        address = taken.endpoints[0] if taken.endpoints else None
        at = f" at {address.host}:{address.port}" if address is not None else ""
        return (
            f"a broker with id {self._broker_id} is registered already{at}, with the data "
            f"directory {taken.directory_id or 'of an unknown id'}; this broker has "
            f"{self._directory_id or 'none'} (directory.id of meta.properties). Give each broker "
            "another node.id"
        )
