"""Filters one batch for compaction (Kafka's Cleaner.cleanInto and MemoryRecords.filterTo)."""

from __future__ import annotations

from oncelog_protocol.records.batch import BatchHeader, read_records
from oncelog_protocol.records.record import Record
from oncelog_protocol.records.retained import build_empty_batch, build_retained_batch
from oncelog_server.log.cleaner.cleaned_transactions import CleanedTransactions
from oncelog_server.log.cleaner.job import CleaningJob
from oncelog_server.log.cleaner.last_batches import NO_OFFSET
from oncelog_server.log.cleaner.offset_map import OffsetMap


class BatchFilter:
    """Filters every batch of a log, in the order of offsets."""

    def __init__(
        self, job: CleaningJob, offsets: OffsetMap, transactions: CleanedTransactions
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._producers = job.producers
        self._end_offset = job.end_offset
        self._now_ms = job.now_ms
        self._horizon_ms = job.now_ms + job.config.delete_retention_ms
        self._max_bytes = job.limits.decompressed_bytes
        self.markers_dropped = False
        self.records_read = 0
        self.records_kept = 0

    def keep(self, header: BatchHeader, batch: bytes) -> bytes | bytearray | None:
        """Return the batch without superfluous records: `batch` itself if nothing changes, None if
        nothing is left. Raises CorruptRecords."""
        self.records_read += header.records_count
        return self._control(header, batch) if header.is_control else self._data(header, batch)

    def _control(self, header: BatchHeader, batch: bytes) -> bytes | bytearray | None:
        """Filter a marker. The marker is kept while a batch of its transaction is in the log, and
        `delete.retention.ms` longer. Until the producer expires, the marker is also kept if no
        other batch has the producer's epoch. (Kafka empties this marker, and loses the epoch when
        the state is rebuilt from the log.)"""
        records = read_records(batch, max_bytes=self._max_bytes, check_crc=False)
        ends_nothing = self._transactions.ends_nothing(header, records)
        horizon_ms = header.delete_horizon_ms
        if records and (
            not ends_nothing
            or horizon_ms is None
            or self._now_ms < horizon_ms
            or self._is_last_of_producer(header)
        ):
            self.records_kept += len(records)
            if ends_nothing and horizon_ms is None:
                return build_retained_batch(header, records, self._horizon_ms)
            return batch
        self.markers_dropped = True
        return self._emptied(header, batch)

    def _data(self, header: BatchHeader, batch: bytes) -> bytes | bytearray | None:
        if self._transactions.is_aborted(header) or not header.records_count:
            return self._emptied(header, batch)
        records = read_records(batch, max_bytes=self._max_bytes, check_crc=False)
        horizon_ms = header.delete_horizon_ms
        past_horizon = horizon_ms is not None and self._now_ms >= horizon_ms
        kept = [record for record in records if self._is_wanted(record, past_horizon)]
        if not kept:
            return self._emptied(header, batch)
        self.records_kept += len(kept)
        if horizon_ms is None and any(record.value is None for record in kept):
            return build_retained_batch(header, kept, self._horizon_ms)
        if len(kept) == len(records):
            return batch
        return build_retained_batch(header, kept, horizon_ms)

    def _is_wanted(self, record: Record, past_horizon: bool) -> bool:
        offsets = self._offsets
        if record.offset > offsets.latest_offset:
            return True
        if record.key is None or (past_horizon and record.value is None):
            return False
        return record.offset >= offsets.get(record.key)

    def _emptied(self, header: BatchHeader, batch: bytes) -> bytes | bytearray | None:
        """Return the batch without its records, or None to remove the batch. The empty batch is
        kept if it has the producer's last sequence number. The last batch of the cleaned part is
        also kept, so that the part keeps its end offset."""
        if header.next_offset != self._end_offset and not self._is_last_of_producer(header):
            return None
        return build_empty_batch(header) if header.records_count else batch

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.data_offset != NO_OFFSET:
            return last.data_offset == header.last_offset
        return header.is_control and last.epoch == header.producer_epoch
