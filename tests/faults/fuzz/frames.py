"""Random requests from the message tables. Most fields are well-formed; the seed decides which
fields are hostile.

`Drawing` gives bytes, because the encoder cannot write most hostile fields: strings at the limits
of int16, forbidden nulls, false counts. Names come from small pools. A frame therefore finds the
state of earlier frames, and the broker's state stays bounded.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from oncelog_protocol.apis import APIS, Api, ApiKey, request_header_version
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_protocol.schema import Field, Schema, schema_of
from oncelog_protocol.types import Array, FieldType, Nested, Primitive, string
from oncelog_protocol.unsigned_varint import write_uvarint

SIZES: Final = (32_730, 32_766, 32_767, 32_768, 65_536)
COUNTS: Final = (-2, -1, 1, 2, 9_999, 20_002, 1 << 20, (1 << 31) - 1)
TOPICS: Final = ("fz-0", "fz-1", "fz-2", "fz-missing", "fz-3")
GROUPS: Final = ("fg-0", "fg-1", "fg-2", "fg-3")
IDS: Final = ("fi-0", "fi-1", "fi-2")
CONFIGS: Final = (
    "retention.ms",
    "cleanup.policy",
    "segment.bytes",
    "max.message.bytes",
    "leader.replication.throttled.replicas",
    "nosuch",
)
VALUES: Final = ("1000000", "compact", "delete", "compact,delete", "-1", "", "x")
TEXTS: Final[dict[str, tuple[str | None, ...]]] = {
    "group_id": GROUPS,
    "groups": GROUPS,
    "groups_names": GROUPS,
    "consumer_group_id": (None, *GROUPS),
    "transaction_group_id": (None, *GROUPS),
    "transactional_id": (*IDS, None),
    "transactional_ids": IDS,
    "key": (*GROUPS, *IDS),
    "coordinator_keys": (*GROUPS, *IDS),
    "group_instance_id": (None, None, "inst-0", "inst-1"),
    "protocol_type": ("consumer",),
    "protocol_name": ("range",),
    "types_filter": ("classic",),
    "states_filter": ("Stable",),
    "committed_metadata": ("", "note"),
    "value": VALUES,
    "configuration_keys": CONFIGS,
    "entity_type": ("user", "client-id"),
}
NUMBERS: Final[dict[str, tuple[int, ...]]] = {
    "acks": (-1, 1, -1, 1, 0),
    "session_timeout_ms": (6_000, 10_000, 1_800_000),
    "rebalance_timeout_ms": (100, 1_000, 10_000),
    "transaction_timeout_ms": (1_000, 60_000, 900_000),
    "timeout_ms": (0, 100, 1_000),
    "max_wait_ms": (0, 0, 1, 5),
    "min_bytes": (0, 1),
    "max_bytes": (1, 1 << 20),
    "partition_max_bytes": (1, 1 << 20),
    "generation_id": (-1, 0, 1, 2, 3),
    "generation_id_or_member_epoch": (-1, 0, 1, 2, 3),
    "replica_id": (-1, -1, -1, 1),
    "session_id": (0, 0, 1),
    "session_epoch": (-1, 0, 1),
    "resource_type": (2, 2, 4),
    "num_partitions": (1, 2, -1),
    "count": (1, 2, 3),
    "replication_factor": (1, -1),
    "partition_index": (0, 1, 7),
    "config_operation": (0, 1, 2, 3),
    "key_type": (0, 1),
    "timestamp": (-1, -2, -3, 5),
    "isolation_level": (0, 1),
    "broker_ids": (1, 1, 2),
}
EXTREMES: Final = {
    "b": (-128, 127),
    "h": (-(1 << 15), (1 << 15) - 1),
    "H": (0, (1 << 16) - 1),
    "i": (-(1 << 31), (1 << 31) - 1),
    "I": (0, (1 << 32) - 1),
    "q": (-(1 << 63), (1 << 63) - 1),
}
# A topic with ten thousand partitions would be a load, not an invalid request.
NEVER_EXTREME: Final = frozenset({"num_partitions", "count"})
# The probability that a field is hostile. Each frame draws one of these.
RATES: Final = (0.0, 0.0, 0.01, 0.05, 0.2)
FILLS: Final = ("a", "é", "\0", "z")


@dataclass
class Learned:
    """Ids from the broker's responses, for later frames."""

    member_ids: deque[str] = field(default_factory=lambda: deque([""], maxlen=20))
    topic_ids: deque[bytes] = field(default_factory=lambda: deque([bytes(16)], maxlen=10))
    producers: deque[tuple[int, int]] = field(default_factory=lambda: deque([(-1, -1)], maxlen=10))

    def take(self, response: Any) -> None:
        """Keep the ids in a response."""
        kind = type(response).__name__
        if kind == "JoinGroupResponse" and response.member_id:
            self.member_ids.append(response.member_id)
        elif kind == "InitProducerIdResponse" and response.producer_id >= 0:
            self.producers.append((response.producer_id, response.producer_epoch))
        elif kind == "MetadataResponse":
            ours = {topic.topic_id for topic in response.topics if topic.name in TOPICS}
            self.topic_ids.extend(ours - set(self.topic_ids))


@dataclass(frozen=True, slots=True)
class Frame:
    """A request. `data` begins with its length. `answered` is False for a Produce with acks=0. If a
    hostile field stands before acks, a response may still come."""

    api: Api
    version: int
    correlation_id: int
    data: bytes
    answered: bool


class Drawing:
    """A source of frames. The same seed and the same responses give the same frames."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.learned = Learned()
        self._keys = list(APIS)
        self._correlation_id = 0
        self._rate = 0.0
        self._left = 0
        self._acks = -1

    def frame(self) -> Frame:
        random = self.random
        api = APIS[random.choice(self._keys)]
        version = random.choice(api.versions)
        self._rate = random.choice(RATES)
        self._left = 2
        self._acks = -1
        out: list[bytes] = [b""]
        schema = schema_of(api.request)
        self._struct(schema, version, version >= schema.flexible_since, out)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        out[0] = self._header(api, version)
        body = b"".join(out)
        answered = api.key != ApiKey.PRODUCE or self._acks != 0
        data = struct.pack(">i", len(body)) + body
        return Frame(api, version, self._correlation_id, data, answered)

    def _header(self, api: Api, version: int) -> bytes:
        name: bytes | None = b"fuzz"
        if self.random.random() < 0.03:
            size = self.random.choice((32_700, 32_730, 32_731, 32_767))
            name = b"c" * size
        elif self.random.random() < 0.02:
            name = None
        start = struct.pack(">hhi", api.key, version, self._correlation_id)
        text = struct.pack(">h", -1) if name is None else struct.pack(">h", len(name)) + name
        return start + text + (b"\0" if request_header_version(api.key, version) > 1 else b"")

    # ── values ────────────────────────────────────────────────────────────────────────────────

    def _is_hostile(self) -> bool:
        if self._left and self._rate and self.random.random() < self._rate:
            self._left -= 1
            return True
        return False

    def _struct(self, schema: Schema, version: int, flexible: bool, out: list[bytes]) -> None:
        for part in schema.present(version):
            self._value(part.type, part, schema, version, flexible, out)
        if flexible:
            self._tags(schema, version, out)

    def _tags(self, schema: Schema, version: int, out: list[bytes]) -> None:
        fields = [part for part in schema.tagged(version) if self.random.random() < 0.2]
        hostile = self._is_hostile()
        out.append(write_uvarint(len(fields) + (1 if hostile else 0)))
        for part in fields:
            parts: list[bytes] = []
            self._value(part.type, part, schema, version, True, parts)
            data = b"".join(parts)
            out.append(write_uvarint(part.tag or 0) + write_uvarint(len(data)) + data)
        if hostile:
            out.append(write_uvarint(self.random.choice((0, 77, 1 << 20))) + b"\3abc")

    def _value(
        self,
        kind: FieldType | type,
        part: Field,
        schema: Schema,
        version: int,
        flexible: bool,
        out: list[bytes],
    ) -> None:
        if isinstance(kind, Array):
            self._array(kind, part, schema, version, flexible, out)
        elif isinstance(kind, Nested):
            nullable = part.nullable(version)
            if nullable and (self.random.random() < 0.5 or self._is_hostile()):
                out.append(b"\xff")
                return
            if nullable:
                out.append(b"\1")
            self._struct(schema_of(kind.of), version, flexible, out)
        elif not isinstance(kind, Primitive):
            self._struct(schema_of(kind), version, flexible, out)
        elif kind.name == "uuid":
            out.append(self.random.choice(self.learned.topic_ids))
        elif kind.name == "float64":
            out.append(struct.pack(">d", self.random.choice((0.0, 1.0, -1.0, float("nan")))))
        elif kind.format:
            out.append(struct.pack(">" + kind.format, self._number(kind.format, part.name)))
        else:
            self._sized(kind, part, schema, version, flexible, out)

    def _number(self, format: str, name: str) -> Any:
        random = self.random
        if format == "?":
            return random.random() < 0.5
        if name not in NEVER_EXTREME and self._is_hostile():
            return random.choice(EXTREMES[format])
        if name == "producer_id":
            return random.choice(self.learned.producers)[0]
        if name == "producer_epoch":
            return random.choice(self.learned.producers)[1]
        number = random.choice(NUMBERS.get(name, (0, 1, 0, -1)))
        if name == "acks":
            self._acks = number
        low, high = EXTREMES[format]
        return min(max(number, low), high)

    def _array(
        self,
        kind: Array,
        part: Field,
        schema: Schema,
        version: int,
        flexible: bool,
        out: list[bytes],
    ) -> None:
        random = self.random
        if part.nullable(version) and random.random() < 0.2:
            self._length(-1, "i", flexible, out)
            return
        count = random.choice((0, 1, 1, 1, 2, 3))
        if self._is_hostile():
            lie = random.choice(COUNTS)
            if lie == 9_999:  # the array really has as many elements
                few = Drawing.__new__(Drawing)
                few.__dict__.update(self.__dict__, _rate=0.0)
                element: list[bytes] = []
                few._value(kind.of, part, schema, version, flexible, element)
                data = b"".join(element)
                if len(data) < 200:
                    self._length(lie, "i", flexible, out)
                    out.append(data * lie)
                    return
            self._length(lie if lie > 3 else count + lie, "i", flexible, out)
        else:
            self._length(count, "i", flexible, out)
        for _ in range(count):
            self._value(kind.of, part, schema, version, flexible, out)

    def _length(self, size: int, classic: str, flexible: bool, out: list[bytes]) -> None:
        if flexible:
            out.append(write_uvarint(max(size + 1, 0)))
            return
        if classic == "h" and size > 0x7FFF:
            size -= 1 << 16  # a client without a length check would write this
        out.append(struct.pack(">" + classic, size))

    def _sized(
        self,
        kind: Primitive,
        part: Field,
        schema: Schema,
        version: int,
        flexible: bool,
        out: list[bytes],
    ) -> None:
        random = self.random
        data: bytes | None = self._content(kind, part, schema)
        lie = 0
        if self._is_hostile():
            how = random.random()
            if how < 0.7:
                size = random.choice(SIZES)
                fill = random.choice(FILLS).encode()
                data = (fill * (size // len(fill) + 1))[: size // len(fill) * len(fill)]
            elif how < 0.8:
                data = None
            elif how < 0.9:
                lie = random.choice((-3, -1, 1, 100))
            else:
                data = b"\xff\xfe"
        classic = "h" if kind is string else "i"
        if data is None and not lie:
            self._length(-1, classic, flexible, out)
            return
        data = data or b""
        self._length(len(data) + lie, classic, flexible, out)
        out.append(data)

    def _content(self, kind: Primitive, part: Field, schema: Schema) -> bytes | None:
        random = self.random
        if kind.name == "records":
            return self._batch()
        if kind is not string:
            return random.choice((b"", b"\0\1\0\0\0\1\0\4fz-0\xff\xff\xff\xff", b"x" * 20))
        name = part.name
        if name in ("member_id", "leader_id"):
            return random.choice(self.learned.member_ids).encode()
        if name in TEXTS:
            text = random.choice(TEXTS[name])
        elif "Config" in schema.name and name == "name":
            text = random.choice(CONFIGS)
        elif "Protocol" in schema.name:
            text = "range"
        else:
            text = random.choice(TOPICS)
        return None if text is None else text.encode()

    def _batch(self) -> bytes | None:
        random = self.random
        kind = random.random()
        if kind < 0.1:
            return random.choice((None, b"", b"\0" * 61, b"junk"))
        producer_id, epoch = random.choice(self.learned.producers)
        transactional = producer_id >= 0 and random.random() < 0.5
        data = build_batch(
            [NewRecord(1_700_000_000_000, random.choice((None, b"k")), b"v")],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=-1 if producer_id < 0 else random.choice((0, 0, 1, 2)),
            is_transactional=transactional,
        )
        if kind < 0.2:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        return bytes(data)
