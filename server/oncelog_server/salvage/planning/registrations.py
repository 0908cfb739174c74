"""The registrations of brokers, as a recovery writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from oncelog_server.cluster import records
from oncelog_server.cluster.records import RegistrationRecord
from oncelog_server.cluster.store import Entry


def known_registrations(entries: Iterable[Entry]) -> dict[str, bytes]:
    """Return the registrations. Each gets its broker epoch as a value, because it gets another
    revision: with this epoch, a broker proves that it still has its records."""
    found = {}
    for entry in entries:
        if entry.key.startswith(records.REGISTRATIONS):
            record = records.decode(RegistrationRecord, entry.value)
            epoch = record.broker_epoch or entry.mod_revision
            found[entry.key] = records.encode(msgspec.structs.replace(record, broker_epoch=epoch))
    return found


def renewed_registrations(
    known: Mapping[str, bytes], directory_ids: Mapping[int, str], epoch: int
) -> dict[str, bytes]:
    """Return the registrations `known`, and those of the brokers in `directory_ids` as if each had
    registered with the broker epoch `epoch`, and with every record that its directory has now."""
    renewed = dict(known)
    for node_id, directory_id in directory_ids.items():
        key = records.registration_key(node_id)
        value = known.get(key)
        before = (
            RegistrationRecord("") if value is None else records.decode(RegistrationRecord, value)
        )
        renewed[key] = records.encode(
            RegistrationRecord(
                directory_id,
                epoch,
                before.endpoints,
                before.rack,
                # The recovery has read the records, and made them durable.
                flush_on_ack=True,
            )
        )
    return renewed
