"""The registration of a broker: its two records, and the epochs that its data directory has kept.

The broker epoch is the create revision of `brokers/<id>`. The registration is one transaction. If
other brokers use the store, the transaction does not write the key of the controller: another
broker may write this key first, and the registration must not fail for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from oncelog_protocol import __version__
from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.members import Registration
from oncelog_server.cluster.records import BrokerRecord, EndpointRecord, RegistrationRecord
from oncelog_server.cluster.store import Created, Delete, Put, Write, Written
from oncelog_server.refusal import Refused

# Maximum number of kept epochs. Each restart without a loss adds an epoch. A member with an epoch
# that is no longer kept leaves the ISR, as after a loss. Long before so many restarts, the
# controller records the present epoch of each member.
KEPT_EPOCHS: Final = 8


class NewRegistration(msgspec.Struct, frozen=True):
    """A broker that registers.

    `boot_id` changes whenever unsynced data may be lost; "" if it is unknown. `clean_stop_epoch`
    is the broker epoch in the directory's mark of a clean stop, 0 without it. `flush_on_ack` says
    that the broker acknowledges only records that are on disk.
    """

    broker_id: int
    directory_id: str
    incarnation: str
    endpoints: tuple[EndpointRecord, ...]
    rack: str | None
    features: Mapping[str, tuple[int, int]]
    boot_id: str = ""
    clean_stop_epoch: int = 0
    flush_on_ack: bool = False


def register(last: Registration | None, new: NewRegistration, lease_id: int) -> Write:
    """Return the transaction that registers a broker. `last` is its last registration.

    The transaction fails if a broker with this id is alive, or if `last` is stale.
    """
    kept = kept_epochs(last, new)
    broker = BrokerRecord(
        new.incarnation,
        new.endpoints,
        new.rack,
        dict(new.features),
        new.directory_id,
        lease_id,
        new.boot_id,
        kept,
        __version__,
    )
    lasting = RegistrationRecord(
        new.directory_id,
        endpoints=new.endpoints,
        rack=new.rack,
        clean_stop_epoch=new.clean_stop_epoch,
        boot_id=new.boot_id,
        flush_on_ack=new.flush_on_ack,
        kept_epochs=kept,
    )
    broker_key = records.broker_key(new.broker_id)
    lasting_key = records.registration_key(new.broker_id)
    return Write(
        (Created(broker_key, 0), Written(lasting_key, 0 if last is None else last.revision)),
        (
            Put(broker_key, records.encode(broker), lease_id),
            Put(lasting_key, records.encode(lasting)),
        ),
    )


def unregister(image: ClusterImage, broker_id: int) -> list[Write]:
    """Return the write that deletes the registration of a fenced broker. If the broker comes back,
    its replicas count as empty, because nothing is known of its directory.

    Raises Refused for an unknown broker (BROKER_ID_NOT_REGISTERED, Kafka's ClusterControlManager),
    and for a live broker, because it would register again. Kafka fences a live broker until its
    restart.
    """
    last = image.registrations.get(broker_id)
    if broker_id in image.brokers:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Broker ID {broker_id} is alive: stop the broker, and unregister it then",
        )
    if last is None:
        raise Refused(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {broker_id} is not currently registered",
        )
    key = records.registration_key(broker_id)
    return [
        Write(
            (Written(key, last.revision), Created(records.broker_key(broker_id), 0)),
            (Delete(key),),
        )
    ]


def with_controller(write: Write, broker_id: int, lease_id: int) -> Write:
    """Return a registration that also makes the broker the controller."""
    record = records.encode(records.ControllerRecord(broker_id))
    return Write(
        (*write.compare, Created(records.CONTROLLER, 0)),
        (*write.operations, Put(records.CONTROLLER, record, lease_id)),
    )


def kept_epochs(last: Registration | None, new: NewRegistration) -> tuple[int, ...]:
    """Return the epochs of those earlier registrations for which the directory still has every
    record.

    After a clean stop, or a kill without a reboot, every written record is in the directory. After
    a power loss only what was synced is certain, so the last registration must have had
    oncelog.flush.on.ack. Another directory has nothing.
    """
    if last is None or not last.directory_id or last.directory_id != new.directory_id:
        return ()
    stopped_cleanly = new.clean_stop_epoch == last.epoch
    same_boot = new.boot_id != "" and new.boot_id == last.boot_id
    if stopped_cleanly or same_boot or last.flush_on_ack:
        return (*last.kept_epochs, last.epoch)[-KEPT_EPOCHS:]
    return ()
