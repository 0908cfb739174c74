"""Options `kafka.*`, which have the names of Java's client, as settings of oncelog's clients. The
options that Spark's own connector refuses are refused here too, and some more (`_REFUSED`). A
`ClientSetup` holds the arguments of a client. A setup is hashable, because it is the key of a cache
of connected clients, and picklable, because executors receive it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, cast, get_args, get_type_hints

from oncelog_client.core.client_config import AdminSettings, admin_config
from oncelog_client.core.consumer_config import ConsumerSettings, consumer_config
from oncelog_client.core.producer_config import ProducerSettings, producer_config
from oncelog_client.core.security_settings import is_security
from oncelog_client.errors import ConfigError
from oncelog_protocol.secret import Secret

from .options import KAFKA_PREFIX, OptionError, Options, read_boolean, read_integer

Side = Literal["source", "sink"]
Kind = Literal["admin", "consumer", "producer"]

BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"

_TYPES: Final[Mapping[Kind, Mapping[str, Any]]] = {
    "admin": get_type_hints(AdminSettings),
    "consumer": get_type_hints(ConsumerSettings),
    "producer": get_type_hints(ProducerSettings),
}
_CLIENT_ID: Final = "oncelog-spark"
# A task reads a known range of one partition, so a large fetch is never wasted. Measured with
# records of 1 KB: a third faster than 1 MiB, as fast as 16 MiB.
_FETCH_BYTES: Final = 4 << 20

# Options that are always refused, with the reason. Spark's own connector also refuses the options
# of the source and both serializers.
_REFUSED: Final[Mapping[Side, Mapping[str, str]]] = {
    "source": {
        "auto.offset.reset": "is not supported: use startingOffsets, which holds for new queries;"
        " a restarted query continues from its checkpoint",
        "enable.auto.commit": "is not supported: the checkpoint says what was read"
        " (commitOffsetsToGroup reports it to a group)",
        "interceptor.classes": "is not supported: an interceptor could change what is read",
        "key.deserializer": "is not supported: keys are binary, change them with functions",
        "value.deserializer": "is not supported: values are binary, change them with functions",
    },
    "sink": {
        "interceptor.classes": "is not supported: an interceptor could change what is written",
        "key.serializer": "is not supported: keys are strings or binary, make them with functions",
        "value.serializer": "is not supported: values are strings or binary, make them with"
        " functions",
        "transactional.id": "is not supported: the sink derives its ids from sinkId",
        "transaction.two.phase.commit.enable": "is not supported: the sink sets it by itself",
    },
}
# Setting -> the values with which the sink is exactly-once, and the reason for refusing others.
_NEEDED: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "acks": (frozenset({"all", "-1"}), "exactly-once needs acks=all"),
    "enable.idempotence": (frozenset({"true"}), "exactly-once needs idempotence"),
}
# Not an option: an option is a text, and this setting is a function.
_FUNCTIONS: Final = frozenset({"sasl_oauthbearer_token"})
# Java's client has a level for each compression type. Oncelog's client has one level for all types.
_LEVELS: Final = frozenset(f"compression.{codec}.level" for codec in ("gzip", "lz4", "zstd"))
# Consumer settings about a group. The source joins no group: it assigns partitions itself.
_GROUP: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
    }
)
# Settings without effect on a consumer that reads given ranges of offsets.
_OWN: Final = frozenset({"allow.auto.create.topics", "exclude.internal.topics"})


class ClientSetup(NamedTuple):
    """The arguments of a client: `Admin(setup.bootstrap_servers, **setup.keywords)`."""

    bootstrap_servers: str
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def keywords(self) -> dict[str, Any]:
        return dict(self.settings)

    def having(self, **settings: Any) -> ClientSetup:
        """Return a copy with other values for some settings."""
        return self._replace(settings=tuple(sorted({**self.keywords, **settings}.items())))


def client_setup(options: Options, side: Side, kind: Kind) -> ClientSetup:
    """Return the setup of a client of a source or a sink. Raises OptionError for
    a missing, refused or invalid option.

    Some defaults are not the client's own: `isolation_level` is read_committed (Spark's connector
    reads uncommitted), `client_id` is oncelog-spark, `max_partition_fetch_bytes` is 4 MiB.
    """
    servers = options.required(BOOTSTRAP_SERVERS)
    given = options.kafka
    _refuse(given, side)
    values: dict[str, Any] = {"client_id": _CLIENT_ID}
    if kind == "consumer":
        values["isolation_level"] = "read_committed"
        values["max_partition_fetch_bytes"] = _FETCH_BYTES
    for name, text in given.items():
        field = name.replace(".", "_")
        if field in _TYPES[kind] and name not in _GROUP | _OWN:
            values[field] = _typed(KAFKA_PREFIX + name, text, _TYPES[kind][field])
        elif kind == "producer" and name == _level_of(given):
            values["compression_level"] = read_integer(KAFKA_PREFIX + name, text.strip())
    if "isolation_level" in values:
        values["isolation_level"] = values["isolation_level"].lower()
    _check(kind, servers, values, given)
    return ClientSetup(servers, tuple(sorted(values.items())))


def remarks(options: Options, side: Side) -> tuple[str, ...]:
    """Return a sentence for the log about each `kafka.*` setting without effect, and about
    `groupIdPrefix`."""
    sentences = []
    if side == "source" and "groupIdPrefix" in options:
        sentences.append("groupIdPrefix has no effect: the source joins no consumer group")
    for name in sorted(options.kafka):
        if side == "source" and name in _GROUP:
            sentences.append(f"kafka.{name} has no effect: the source joins no consumer group")
        elif not _is_known(name):
            sentences.append(f"kafka.{name} has no effect: oncelog's clients have no such setting")
    return tuple(sentences)


def _level_of(given: Mapping[str, str]) -> str:
    return f"compression.{given.get('compression.type', 'none').strip().lower()}.level"


def _is_known(name: str) -> bool:
    field = name.replace(".", "_")
    known = {"bootstrap.servers", *_LEVELS}
    if field in _FUNCTIONS:
        return False
    return name in known or any(field in types for types in _TYPES.values())


def _refuse(given: Mapping[str, str], side: Side) -> None:
    for name, text in given.items():
        option = KAFKA_PREFIX + name
        if name in _REFUSED[side]:
            raise OptionError(option, text, _REFUSED[side][name])
        if is_security(name) and not _is_known(name):
            _refuse_security(option, name, text)
        if side == "sink" and name in _NEEDED:
            allowed, reason = _NEEDED[name]
            if text.strip().lower() not in allowed:
                raise OptionError(option, text, f"is not supported: {reason}")


def _refuse_security(option: str, name: str, text: str) -> None:
    """Raise OptionError for a setting of TLS or SASL that the clients do not have. Without an error
    a misspelled setting could let data be sent unencrypted. Settings of the Java runtime are
    ignored, with a remark."""
    from oncelog_client.core.security_config import has_no_effect, unsupported_reason

    if not has_no_effect(name, text):
        reason = unsupported_reason(name) or "the clients have no such setting"
        raise OptionError(option, Secret(text), f"is not supported: {reason}")


def _is_secret(wanted: Any) -> bool:
    return Secret in get_args(wanted)


def _typed(option: str, text: str, wanted: Any) -> Any:
    if _is_secret(wanted):
        # Kafka keeps the blanks around a password.
        return Secret(text)
    text = text.strip()
    if wanted is bool:
        return read_boolean(option, text)
    if wanted in (int, int | None):
        return read_integer(option, text)
    if wanted is float:
        return float(read_integer(option, text))
    return text


def _check(kind: Kind, servers: str, values: Mapping[str, Any], given: Mapping[str, str]) -> None:
    """Raise OptionError if `values` break a rule of the client. The error names the option, not the
    setting."""
    try:
        if kind == "admin":
            admin_config(servers, cast(AdminSettings, values))
        elif kind == "consumer":
            consumer_config(servers, cast(ConsumerSettings, values))
        else:
            producer_config(servers, cast(ProducerSettings, values))
    except ConfigError as error:
        message = _with_option_names(error.message)
        # The longest name first: kafka.ssl.keystore.key is the beginning of another name.
        for name in sorted(given, key=len, reverse=True):
            field = name.replace(".", "_")
            if field in error.message:
                text = given[name]
                value = Secret(text) if _is_secret(_TYPES[kind].get(field)) else text
                raise OptionError(KAFKA_PREFIX + name, value, message) from None
        raise OptionError("kafka.*", None, message) from None


def _with_option_names(message: str) -> str:
    """Return a message about settings of TLS and SASL with the names of the options."""
    return re.sub(
        r"\b(?:sasl|security|ssl)_[a-z_]+",
        lambda found: KAFKA_PREFIX + found[0].replace("_", "."),
        message,
    )
