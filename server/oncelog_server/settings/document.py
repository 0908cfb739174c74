"""docs/settings.md, the page of all settings, generated from the tables.

`python -m oncelog_server.settings.document > docs/settings.md` writes it again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from oncelog_server.settings.accepted import ACCEPTED, ALIASES
from oncelog_server.settings.dynamic import DYNAMIC, THROTTLES
from oncelog_server.settings.model import HONOURED
from oncelog_server.settings.refused import REFUSED
from oncelog_server.settings.table import Setting, Unhonoured, format_value
from oncelog_server.settings.thread_counts import THREAD_COUNTS
from oncelog_server.settings.topics import INTERNAL, SYNONYMS, TOPIC_SETTINGS, UNHONOURED

_HEAD = """\
# Settings

<!-- made by `python -m oncelog_server.settings.document > docs/settings.md` -->

This page answers: which settings does a broker have, with which defaults, and how are they set?
Names, types, defaults and ranges are Apache Kafka 4.3's unless a row says otherwise. Each of
Kafka's broker settings is in one of three sections: honored, accepted without effect, refused.

A later source overrides an earlier source:

1. defaults
2. `--config server.properties`
3. `KAFKA_*` in the environment, spelled as for Kafka's image: `KAFKA_LOG_RETENTION_MS` is
   `log.retention.ms`, `__` stands for `_` and `___` for `-`; then `KAFKA_CFG_*`, the same names
   with the prefix of Bitnami's image; `KAFKA_CREATE_TOPICS` is `oncelog.create.topics`
4. `ONCELOG_*` in the environment, spelled the same way; `ONCELOG_FLUSH_ON_ACK` is
   `oncelog.flush.on.ack`
5. `--set name=value`. `--port`, `--data` and `--brokers` set `listeners`, `log.dirs` and
   `oncelog.brokers`, and are refused together with a `--set` of the same setting

`listener.name.<listener>.<setting>` sets a setting of TLS or SASL, or `max.connections`, for one
listener, and `listener.name.<listener>.<mechanism>.<setting>` one of SASL for one of its
mechanisms; listener and mechanism are in lower case. `sasl.jaas.config` exists only in this last
form.

An unknown name is an error that names the most similar setting. In the environment an unknown name
is only a warning: other programs have variables there too.

## What survives a crash

| | `oncelog.flush.on.ack=false` (default, Kafka's way) | `oncelog.flush.on.ack=true` |
|---|---|---|
| the response to acks=all, a commit, the end of a transaction | waits until the record is with \
the operating system | waits until the record is on disk (one fdatasync for many responses) |
| SIGKILL of the broker | nothing acknowledged is lost | nothing acknowledged is lost |
| power loss | the broker starts; the last acknowledged records may be lost | nothing \
acknowledged is lost |

With `oncelog.flush.on.ack=false`, `flush.messages` and `flush.ms` limit the number of records that
a power loss can destroy. By default they set no limit.
"""

_DYNAMIC_HEAD = """\
IncrementalAlterConfigs and AlterConfigs change these settings while the broker runs (KIP-226):

    kafka-configs.sh --bootstrap-server localhost:9092 --alter --broker 1 \\
      --add-config log.retention.ms=3600000

`--broker-defaults` instead of `--broker 1` changes a setting for all brokers. A broker's own value
overrides that of all brokers, and both override the value of the start. The values are in the
metadata store, so they survive a restart. `min.insync.replicas` can be changed for all brokers
only, and cannot be removed afterwards, as in Kafka (KIP-966). Any other setting is refused with
INVALID_REQUEST.

`listener.name.<listener>.max.connections` and
`listener.name.<listener>.max.connection.creation.rate` are dynamic too, for the listeners that the
broker has. A change to 0 connections of a listener is refused, as by Kafka: no client could take it
back. `listener.name.<listener>.num.network.threads` is accepted as well, without effect.
"""


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) + "\n"


def document() -> str:
    """Return the text of the page."""
    ours = [row for row in HONOURED.values() if _is_ours(row)]
    kafkas = [row for row in HONOURED.values() if not _is_ours(row)]
    parts = [
        _HEAD,
        "## Our own\n",
        *_settings(ours),
        "## Honored\n",
        *_settings(sorted(kafkas, key=lambda row: row.name)),
        "KIP-98's names of these settings are accepted with a warning:\n",
        "\n".join(f"* `{alias}` is `{name}`" for alias, name in ALIASES.items()) + "\n",
        "## Dynamic\n",
        _DYNAMIC_HEAD,
        _names(DYNAMIC.keys() - THROTTLES.keys() - THREAD_COUNTS.keys()),
        "These are accepted as dynamic settings too, as by Kafka, and have no effect. As in "
        "Kafka, one\nchange makes a number at most twice as large, or half as large:\n",
        _names(THREAD_COUNTS),
        "These exist only as dynamic settings:\n",
        *_settings(THROTTLES.values()),
        "## Of a topic\n",
        "CreateTopics, AlterConfigs and IncrementalAlterConfigs set these. A name in the column\n"
        "`default` is the broker's setting with the default. Of several names, the first one that "
        "is\nset applies.\n",
        *_topics(row for row in TOPIC_SETTINGS.values() if row.name not in INTERNAL),
        "## Accepted without effect\n",
        *_unhonoured(ACCEPTED),
        "## Refused\n",
        "Kafka's default of each setting is accepted: it needs nothing that oncelog lacks.\n",
        *_unhonoured(REFUSED),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _is_ours(row: Setting) -> bool:
    """Return True if Kafka has no such setting. These settings have the prefix `oncelog.`, except
    one: its name is that of KIP-447's draft.
    """
    return row.name.startswith("oncelog.") or row.name == "group.transactions.enable"


def _settings(rows: Iterable[Setting]) -> Iterator[str]:
    yield "| name | type | default | |\n|---|---|---|---|"
    for row in rows:
        yield f"| `{row.name}` | {row.kind.name.lower()} | {_shown(row)} | {row.doc} |"
    yield ""


def _topics(rows: Iterable[Setting]) -> Iterator[str]:
    yield "| name | type | default | |\n|---|---|---|---|"
    for row in rows:
        names = SYNONYMS.get(row.name)
        default = ", ".join(f"`{name}`" for name in names) if names else _shown(row)
        refused = "Only the default is accepted: " if row.name in UNHONOURED else ""
        yield f"| `{row.name}` | {row.kind.name.lower()} | {default} | {refused}{row.doc} |"
    yield ""


def _unhonoured(table: Mapping[str, Unhonoured]) -> Iterator[str]:
    for reason, rows in groupby(table.values(), key=lambda row: row.reason):
        yield f"* {reason}: " + ", ".join(f"`{row.name}`" for row in rows)
    yield ""


def _shown(row: Setting) -> str:
    text = format_value(row.kind, row.default)
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    sys.stdout.write(document())
