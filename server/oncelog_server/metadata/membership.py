"""This broker as a member of the cluster: its registration, and the lease that keeps it.

The event loop itself renews the lease, never a thread: a broker with a blocked loop must be fenced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

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
from oncelog_server.metadata.id_conflict import IdConflict, IdInUse
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.refusal import Refused
from oncelog_server.settings.listeners import Endpoint
from oncelog_server.settings.model import Settings

# Pause after a failed renewal of the registration, from the second failure in a row on.
RETRY_S: Final = 0.5

_log = structlog.get_logger("oncelog.cluster")


T = TypeVar("T")


class DirectoryFacts(msgspec.Struct, frozen=True):
    """The data directory with which a broker registers. `NewRegistration` explains the fields."""

    id: str = ""
    boot_id: str = ""
    clean_stop_epoch: int = 0


class _Attempt(NamedTuple):
    """A lease for the registration, and the time at which it was requested."""

    lease: Lease
    sent_ms: int


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
        # The attempt to register that is not known to have succeeded or failed.
        self._attempt: _Attempt | None = None
        # The revision of the last registration before the first attempt with an unknown outcome.
        self._unknown_since: int | None = None
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

    @property
    def may_be_registered(self) -> bool:
        """Return False if no registration of this process can be in the store."""
        return self.broker_epoch > 0 or self._unknown_since is not None

    async def await_free_id(self, wait: StoreWait) -> None:
        """Wait until no broker with this broker's id is registered. Call this before a new data
        directory is written: the id may be that of another broker by mistake.

        Raises IdInUse at the deadline of `wait`. Raises the errors of `StoreWait.step`.
        """
        conflict = IdConflict(self._settings, ends_s=wait.ends_s)
        look = partial(self._store.get, records.broker_key(self._broker_id))
        while (entry := await wait.step("the registration of its id", look)) is not None:
            await conflict.wait(broker_image(self._broker_id, entry))

    async def register(
        self, endpoints: Sequence[Endpoint], directory: DirectoryFacts, wait: StoreWait
    ) -> None:
        """Register this broker, and keep the registration until `stop`.

        Raises IdInUse if another data directory has the broker's id. Raises the errors of
        `StoreWait.step`, and Refused if the image does not follow the store.
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
        await self._register(self._new, takes_over=True, wait=wait)
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

    async def abandon(self) -> None:
        """Stop without the store. If it may have a registration of this process, the exit monitor
        ends its lease when the process has ended."""
        await self.stop_keeping()
        self.authority.end()
        if self._exit_monitor is not None and not self.may_be_registered:
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
        self,
        new: NewRegistration,
        *,
        takes_over: bool,
        cluster: Created | None = None,
        wait: StoreWait | None = None,
    ) -> None:
        """Register, and wait for the image. If an earlier process with the same data directory is
        still registered, end its lease: the lock on the directory proves that it is dead. `wait` is
        that of the start.

        Without `takes_over`, a registration of another process stays. Two processes with copies of
        one directory would otherwise end each other's leases without end.
        """

        async def done(attempt: Callable[[], Awaitable[T]]) -> T:
            if wait is None:
                return await attempt()
            return await wait.step("the registration of this broker", attempt)

        ends_s = None if wait is None else wait.ends_s
        conflict = IdConflict(self._settings, new.directory_id, ends_s)
        while (taken := await done(partial(self._try, new, cluster))) is not None:
            is_earlier = takes_over and taken.directory_id == new.directory_id != ""
            if taken.lease_id and (is_earlier or taken.incarnation == new.incarnation):
                _log.info("an earlier registration ends", broker=new.broker_id, epoch=taken.epoch)
                await done(partial(self._store.revoke_lease, taken.lease_id))
                continue
            await conflict.wait(taken, is_final=self.is_alone)

    async def _try(self, new: NewRegistration, cluster: Created | None) -> BrokerImage | None:
        """Register. Return the broker that has the id, None after a success.

        A stale last registration, or a lease that ends meanwhile, leads to another attempt. An
        attempt with an unknown outcome is repeated with the same lease: if the first one has
        succeeded, or still succeeds, the other one finds this registration. If the outcome is
        unknown again, raises UnknownOutcome, and the next call continues. Raises LostMetadata if
        the condition `cluster` does not hold.
        """
        last = self._follower.image.registrations.get(new.broker_id)
        elects = True
        while True:
            attempt = self._attempt = self._attempt or await self._granted()
            write = self._write(last, new, attempt.lease, cluster, elects=elects)
            try:
                result = await self._store.txn(write.compare, write.operations)
            except LeaseEnded:
                self._attempt = None
                continue
            except UnknownOutcome as unknown:
                if self._unknown_since is not None:
                    raise
                self._unknown_since = 0 if last is None else last.revision
                _log.info("the outcome of the registration is unknown", reason=str(unknown))
                continue
            taken = None if result.succeeded else self._taken(result)
            if result.succeeded or _is_of(taken, new, attempt.lease):
                await self._registered(result.revision if taken is None else taken.epoch, attempt)
                return None
            self._attempt = None
            await self._give_back(attempt.lease)
            elects = False
            if cluster is not None:
                await self._present_cluster()
            if taken is not None:
                return taken
            last = _registration(new.broker_id, result.current[1])

    async def _granted(self) -> _Attempt:
        """Return an attempt with a new lease."""
        sent_ms = self._boottime_ms()
        lease = self._lease = await self._store.lease(self._settings.broker_session_timeout_ms)
        if self._exit_monitor is not None:
            self._exit_monitor.keep(lease.id)
        return _Attempt(lease, sent_ms)

    def _write(
        self,
        last: Registration | None,
        new: NewRegistration,
        lease: Lease,
        cluster: Created | None,
        *,
        elects: bool,
    ) -> Write:
        """Return the transaction of a registration. `last` is the last one."""
        if last is not None and self._has_made(last, new.directory_id):
            # This process still has every record.
            new = msgspec.structs.replace(new, clean_stop_epoch=last.epoch)
        write = register(last, new, lease.id)
        if cluster is not None:
            write = Write((*write.compare, cluster), write.operations)
        if elects and lease.ttl_ms == 0:
            # No other broker uses this store, so the election needs no transaction of its own.
            write = with_controller(write, new.broker_id, lease.id)
        return write

    def _has_made(self, last: Registration, directory_id: str) -> bool:
        """Return True if an attempt with an unknown outcome has made the last registration: it has
        this broker's directory, which only this process uses."""
        since = self._unknown_since
        return since is not None and last.revision > since and last.directory_id == directory_id

    def _taken(self, result: TxnResult) -> BrokerImage | None:
        """Return the registered broker that a registration has found, None without one."""
        entry = result.current[0]
        return None if entry is None else broker_image(self._broker_id, entry)

    async def _registered(self, epoch: int, attempt: _Attempt) -> None:
        """Act on a success. Return when the image has it."""
        self.broker_epoch = epoch
        if self._exit_monitor is not None:
            self._exit_monitor.registered()
        # An older image may name leaders that have been replaced since this broker's last
        # registration ended.
        await self._follower.reached(epoch)
        self._attempt, self._unknown_since = None, None
        self.authority.renew(attempt.sent_ms, attempt.lease.ttl_ms)
        # The lease may be almost over, or even have ended.
        if self._boottime_ms() - attempt.sent_ms >= self._settings.broker_heartbeat_interval_ms:
            self._wakes.set()

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


def _is_of(taken: BrokerImage | None, new: NewRegistration, lease: Lease) -> bool:
    """Return True if `taken` is the registration of this process with this lease."""
    return taken is not None and taken.incarnation == new.incarnation and taken.lease_id == lease.id
