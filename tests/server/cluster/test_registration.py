"""A registration is one transaction without the controller's key. It says which earlier records the
data directory has kept."""

from __future__ import annotations

import pytest
from msgspec import structs

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.members import Registration
from oncelog_server.cluster.registration import (
    KEPT_EPOCHS,
    NewRegistration,
    kept_epochs,
    register,
    unregister,
)
from oncelog_server.cluster.store import Created, Put, Written
from oncelog_server.refusal import Refused
from tests.server.cluster.clusters import Cluster

LAST = Registration(
    5,
    epoch=70,
    revision=71,
    directory_id="directory",
    endpoints=(),
    rack=None,
    clean_stop_epoch=0,
    boot_id="boot",
    flush_on_ack=False,
    kept_epochs=(50, 60),
)
NEW = NewRegistration(5, "directory", "incarnation", (), "rack", {}, boot_id="boot")


@pytest.mark.parametrize(
    ("last", "new", "kept"),
    [
        (None, {}, ()),
        ({}, {}, (50, 60, 70)),
        ({}, {"boot_id": "another"}, ()),
        ({"boot_id": ""}, {"boot_id": ""}, ()),
        ({}, {"boot_id": "another", "clean_stop_epoch": 70}, (50, 60, 70)),
        ({}, {"boot_id": "another", "clean_stop_epoch": 60}, ()),
        ({"flush_on_ack": True}, {"boot_id": "another"}, (50, 60, 70)),
        ({}, {"boot_id": "another", "flush_on_ack": True}, ()),
        ({}, {"directory_id": "another"}, ()),
        ({}, {"directory_id": "another", "clean_stop_epoch": 70, "flush_on_ack": True}, ()),
        ({"directory_id": ""}, {"directory_id": ""}, ()),
        (
            {"kept_epochs": tuple(range(10, 10 + KEPT_EPOCHS))},
            {},
            (*range(11, 10 + KEPT_EPOCHS), 70),
        ),
    ],
)
def test_a_directory_has_kept_its_records_after_a_clean_stop_or_a_kill_without_a_reboot(
    last: dict[str, object] | None, new: dict[str, object], kept: tuple[int, ...]
) -> None:
    before = None if last is None else structs.replace(LAST, **last)
    assert kept_epochs(before, structs.replace(NEW, **new)) == kept


def test_a_registration_writes_both_records_and_not_the_controller() -> None:
    """Defect A of the cluster brief: with the controller's key in the same transaction, two of
    three brokers that started together failed to register."""
    write = register(LAST, NEW, 9)
    assert write.compare == (Created("brokers/5", 0), Written("registrations/5", 71))
    leased, lasting = write.operations
    assert isinstance(leased, Put)
    assert isinstance(lasting, Put)
    assert (leased.key, leased.lease_id) == ("brokers/5", 9)
    assert (lasting.key, lasting.lease_id) == ("registrations/5", 0)
    broker = records.decode(records.BrokerRecord, leased.value)
    assert (broker.directory_id, broker.lease_id, broker.rack) == ("directory", 9, "rack")
    assert broker.kept_epochs == (50, 60, 70)
    record = records.decode(records.RegistrationRecord, lasting.value)
    assert record.broker_epoch == 0
    assert record.kept_epochs == broker.kept_epochs


def test_the_broker_epoch_is_the_revision_of_the_registration() -> None:
    cluster = Cluster(())
    cluster.register(5)
    first = cluster.image.brokers[5].epoch
    assert cluster.image.registrations[5].epoch == first
    cluster.stop(5)
    assert set(cluster.image.fenced) == {5}
    cluster.register(5, clean_stop=first)
    assert cluster.image.brokers[5].epoch > first
    assert cluster.image.brokers[5].kept_epochs == (first,)
    assert not cluster.image.fenced


def test_an_unregistered_broker_is_forgotten_and_comes_back_as_a_new_one() -> None:
    """Its directory may have kept all records, but nothing proves this any more."""
    cluster = Cluster((1, 5))
    epoch = cluster.image.brokers[5].epoch
    cluster.stop(5)
    assert cluster.apply(unregister(cluster.image, 5))
    assert cluster.image.registered == {1}
    cluster.register(5, clean_stop=epoch)
    assert cluster.image.brokers[5].kept_epochs == ()


@pytest.mark.parametrize(
    ("broker", "code", "message"),
    [
        (5, ErrorCode.INVALID_REQUEST, "Broker ID 5 is alive: stop the broker"),
        (7, ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker ID 7 is not currently registered"),
    ],
)
def test_only_a_fenced_broker_is_unregistered(broker: int, code: ErrorCode, message: str) -> None:
    cluster = Cluster((1, 5))
    with pytest.raises(Refused, match=message) as refused:
        unregister(cluster.image, broker)
    assert refused.value.code == code


def test_a_broker_that_registers_meanwhile_is_not_unregistered() -> None:
    cluster = Cluster((1, 5))
    cluster.stop(5)
    writes = unregister(cluster.image, 5)
    cluster.register(5)
    assert not cluster.apply(writes)
