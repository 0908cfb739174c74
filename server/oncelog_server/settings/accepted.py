"""Kafka's settings that are accepted without effect, each with the reason.

They are accepted so that Kafka's server.properties, or the environment of Kafka's image, works
unchanged. A row is a name, a type, Kafka's default and its importance.
"""

from __future__ import annotations

from typing import Final

from oncelog_server.settings.table import Importance, Kind, Unhonoured, unhonoured

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

_KRAFT = (
    ("sasl.mechanism.controller.protocol", Kind.STRING, "GSSAPI", HIGH),
    ("controller.quorum.append.linger.ms", Kind.INT, "25", MEDIUM),
    ("controller.quorum.auto.join.enable", Kind.BOOLEAN, "false", LOW),
    ("controller.quorum.bootstrap.servers", Kind.LIST, "", HIGH),
    ("controller.quorum.election.backoff.max.ms", Kind.INT, "1000", HIGH),
    ("controller.quorum.election.timeout.ms", Kind.INT, "1000", HIGH),
    ("controller.quorum.fetch.max.bytes", Kind.INT, "1048576", LOW),
    ("controller.quorum.fetch.snapshot.max.bytes", Kind.INT, "1048576", LOW),
    ("controller.quorum.fetch.timeout.ms", Kind.INT, "2000", HIGH),
    ("controller.quorum.request.timeout.ms", Kind.INT, "2000", MEDIUM),
    ("controller.quorum.retry.backoff.ms", Kind.INT, "20", LOW),
    ("controller.quorum.voters", Kind.LIST, "", HIGH),
    ("controller.socket.timeout.ms", Kind.INT, "30000", MEDIUM),
    ("early.start.listeners", Kind.LIST, None, HIGH),
    ("metadata.log.dir", Kind.STRING, None, HIGH),
    ("metadata.log.max.record.bytes.between.snapshots", Kind.LONG, "20971520", HIGH),
    ("metadata.log.max.snapshot.interval.ms", Kind.LONG, "3600000", HIGH),
    ("metadata.log.segment.bytes", Kind.INT, "1073741824", HIGH),
    ("metadata.log.segment.ms", Kind.LONG, "604800000", HIGH),
    ("metadata.max.idle.interval.ms", Kind.INT, "500", LOW),
    ("metadata.max.retention.bytes", Kind.LONG, "104857600", HIGH),
    ("metadata.max.retention.ms", Kind.LONG, "604800000", HIGH),
)

_JVM = (
    ("background.threads", Kind.INT, "10", HIGH),
    ("delete.records.purgatory.purge.interval.requests", Kind.INT, "1", MEDIUM),
    ("fetch.purgatory.purge.interval.requests", Kind.INT, "1000", MEDIUM),
    ("group.coordinator.append.linger.ms", Kind.INT, "-1", MEDIUM),
    ("group.coordinator.background.threads", Kind.INT, "2", HIGH),
    ("group.coordinator.cached.buffer.max.bytes", Kind.INT, "1048588", MEDIUM),
    ("group.coordinator.threads", Kind.INT, "4", HIGH),
    ("kafka.metrics.polling.interval.secs", Kind.INT, "10", LOW),
    ("kafka.metrics.reporters", Kind.LIST, "", LOW),
    ("log.dir.failure.timeout.ms", Kind.LONG, "30000", LOW),
    ("metric.reporters", Kind.LIST, "org.apache.kafka.common.metrics.JmxReporter", LOW),
    ("metrics.num.samples", Kind.INT, "2", LOW),
    ("metrics.recording.level", Kind.STRING, "INFO", LOW),
    ("metrics.sample.window.ms", Kind.LONG, "30000", LOW),
    ("num.io.threads", Kind.INT, "8", HIGH),
    ("num.network.threads", Kind.INT, "3", HIGH),
    ("num.recovery.threads.per.data.dir", Kind.INT, "2", HIGH),
    ("num.replica.alter.log.dirs.threads", Kind.INT, None, HIGH),
    ("offsets.load.buffer.size", Kind.INT, "5242880", HIGH),
    ("producer.purgatory.purge.interval.requests", Kind.INT, "1000", MEDIUM),
    ("queued.max.requests", Kind.INT, "500", HIGH),
    ("share.coordinator.load.buffer.size", Kind.INT, "5242880", HIGH),
    ("share.fetch.purgatory.purge.interval.requests", Kind.INT, "1000", MEDIUM),
    ("telemetry.max.bytes", Kind.INT, "1048576", LOW),
    ("transaction.state.log.load.buffer.size", Kind.INT, "5242880", HIGH),
)

_REPLICATION = (
    ("alter.log.dirs.replication.quota.window.num", Kind.INT, "11", LOW),
    ("alter.log.dirs.replication.quota.window.size.seconds", Kind.INT, "1", LOW),
    ("replica.socket.receive.buffer.bytes", Kind.INT, "65536", HIGH),
    ("socket.connection.setup.timeout.max.ms", Kind.LONG, "30000", MEDIUM),
    ("socket.connection.setup.timeout.ms", Kind.LONG, "10000", MEDIUM),
)

_GROUPS = (
    ("group.consumer.assignment.interval.ms", Kind.INT, "1000", MEDIUM),
    ("group.consumer.assignors", Kind.LIST, "uniform,range", MEDIUM),
    ("group.consumer.heartbeat.interval.ms", Kind.INT, "5000", MEDIUM),
    ("group.consumer.max.assignment.interval.ms", Kind.INT, "15000", MEDIUM),
    ("group.consumer.max.heartbeat.interval.ms", Kind.INT, "15000", MEDIUM),
    ("group.consumer.max.session.timeout.ms", Kind.INT, "60000", MEDIUM),
    ("group.consumer.max.size", Kind.INT, "2147483647", MEDIUM),
    ("group.consumer.migration.policy", Kind.STRING, "bidirectional", MEDIUM),
    ("group.consumer.min.assignment.interval.ms", Kind.INT, "0", MEDIUM),
    ("group.consumer.min.heartbeat.interval.ms", Kind.INT, "5000", MEDIUM),
    ("group.consumer.min.session.timeout.ms", Kind.INT, "45000", MEDIUM),
    ("group.consumer.session.timeout.ms", Kind.INT, "45000", MEDIUM),
    ("group.coordinator.rebalance.protocols", Kind.LIST, "classic,consumer,streams", MEDIUM),
    ("group.share.assignment.interval.ms", Kind.INT, "1000", MEDIUM),
    ("group.share.assignors", Kind.LIST, "simple", MEDIUM),
    ("group.share.delivery.count.limit", Kind.INT, "5", MEDIUM),
    ("group.share.heartbeat.interval.ms", Kind.INT, "5000", MEDIUM),
    ("group.share.max.assignment.interval.ms", Kind.INT, "15000", MEDIUM),
    ("group.share.max.delivery.count.limit", Kind.INT, "10", MEDIUM),
    ("group.share.max.heartbeat.interval.ms", Kind.INT, "15000", MEDIUM),
    ("group.share.max.partition.max.record.locks", Kind.INT, "4000", MEDIUM),
    ("group.share.max.record.lock.duration.ms", Kind.INT, "60000", MEDIUM),
    ("group.share.max.session.timeout.ms", Kind.INT, "60000", MEDIUM),
    ("group.share.max.share.sessions", Kind.INT, "2000", MEDIUM),
    ("group.share.max.size", Kind.INT, "200", MEDIUM),
    ("group.share.min.assignment.interval.ms", Kind.INT, "0", MEDIUM),
    ("group.share.min.delivery.count.limit", Kind.INT, "2", MEDIUM),
    ("group.share.min.heartbeat.interval.ms", Kind.INT, "5000", MEDIUM),
    ("group.share.min.partition.max.record.locks", Kind.INT, "100", MEDIUM),
    ("group.share.min.record.lock.duration.ms", Kind.INT, "15000", MEDIUM),
    ("group.share.min.session.timeout.ms", Kind.INT, "45000", MEDIUM),
    ("group.share.partition.max.record.locks", Kind.INT, "2000", MEDIUM),
    ("group.share.record.lock.duration.ms", Kind.INT, "30000", MEDIUM),
    ("group.share.session.timeout.ms", Kind.INT, "45000", MEDIUM),
    ("group.streams.assignment.interval.ms", Kind.INT, "1000", MEDIUM),
    ("group.streams.heartbeat.interval.ms", Kind.INT, "5000", MEDIUM),
    ("group.streams.initial.rebalance.delay.ms", Kind.INT, "3000", MEDIUM),
    ("group.streams.max.assignment.interval.ms", Kind.INT, "15000", MEDIUM),
    ("group.streams.max.heartbeat.interval.ms", Kind.INT, "15000", MEDIUM),
    ("group.streams.max.session.timeout.ms", Kind.INT, "60000", MEDIUM),
    ("group.streams.max.size", Kind.INT, "2147483647", MEDIUM),
    ("group.streams.max.standby.replicas", Kind.INT, "2", MEDIUM),
    ("group.streams.min.assignment.interval.ms", Kind.INT, "0", MEDIUM),
    ("group.streams.min.heartbeat.interval.ms", Kind.INT, "5000", MEDIUM),
    ("group.streams.min.session.timeout.ms", Kind.INT, "45000", MEDIUM),
    ("group.streams.num.standby.replicas", Kind.INT, "0", MEDIUM),
    ("group.streams.session.timeout.ms", Kind.INT, "45000", MEDIUM),
    ("share.coordinator.append.linger.ms", Kind.INT, "-1", MEDIUM),
    ("share.coordinator.cached.buffer.max.bytes", Kind.INT, "1048588", MEDIUM),
    ("share.coordinator.snapshot.update.records.per.snapshot", Kind.INT, "500", MEDIUM),
    ("share.coordinator.state.topic.compression.codec", Kind.INT, "0", HIGH),
    ("share.coordinator.state.topic.min.isr", Kind.SHORT, "2", HIGH),
    ("share.coordinator.state.topic.num.partitions", Kind.INT, "50", HIGH),
    ("share.coordinator.state.topic.replication.factor", Kind.SHORT, "3", HIGH),
    ("share.coordinator.state.topic.segment.bytes", Kind.INT, "104857600", HIGH),
    ("share.coordinator.threads", Kind.INT, "1", MEDIUM),
    ("share.coordinator.write.timeout.ms", Kind.INT, "5000", HIGH),
)

_COMPACTION = (("log.cleaner.threads", Kind.INT, "1", MEDIUM),)

_REMOTE = (
    ("follower.fetch.last.tiered.offset.enable", Kind.BOOLEAN, "false", MEDIUM),
    ("remote.fetch.max.wait.ms", Kind.INT, "500", MEDIUM),
    ("remote.list.offsets.request.timeout.ms", Kind.LONG, "30000", MEDIUM),
    ("remote.log.index.file.cache.total.size.bytes", Kind.LONG, "1073741824", LOW),
    ("remote.log.manager.copier.thread.pool.size", Kind.INT, "10", MEDIUM),
    ("remote.log.manager.copy.max.bytes.per.second", Kind.LONG, "9223372036854775807", MEDIUM),
    ("remote.log.manager.copy.quota.window.num", Kind.INT, "11", MEDIUM),
    ("remote.log.manager.copy.quota.window.size.seconds", Kind.INT, "1", MEDIUM),
    ("remote.log.manager.expiration.thread.pool.size", Kind.INT, "10", MEDIUM),
    ("remote.log.manager.fetch.max.bytes.per.second", Kind.LONG, "9223372036854775807", MEDIUM),
    ("remote.log.manager.fetch.quota.window.num", Kind.INT, "11", MEDIUM),
    ("remote.log.manager.fetch.quota.window.size.seconds", Kind.INT, "1", MEDIUM),
    ("remote.log.manager.follower.thread.pool.size", Kind.INT, "2", MEDIUM),
    ("remote.log.manager.task.interval.ms", Kind.LONG, "30000", LOW),
    ("remote.log.manager.thread.pool.size", Kind.INT, "2", MEDIUM),
    ("remote.log.metadata.custom.metadata.max.bytes", Kind.INT, "128", LOW),
    ("remote.log.metadata.manager.impl.prefix", Kind.STRING, "rlmm.config.", MEDIUM),
    ("remote.log.metadata.manager.listener.name", Kind.STRING, None, MEDIUM),
    ("remote.log.reader.max.pending.tasks", Kind.INT, "100", MEDIUM),
    ("remote.log.reader.threads", Kind.INT, "10", MEDIUM),
)

_OPENSSL = (
    ("security.providers", Kind.STRING, None, LOW),
    ("ssl.keymanager.algorithm", Kind.STRING, "SunX509", MEDIUM),
    ("ssl.protocol", Kind.STRING, "TLSv1.3", MEDIUM),
    ("ssl.provider", Kind.STRING, None, MEDIUM),
    ("ssl.secure.random.implementation", Kind.STRING, None, LOW),
    ("ssl.trustmanager.algorithm", Kind.STRING, "PKIX", MEDIUM),
)

_LOGINS = (
    ("sasl.login.connect.timeout.ms", Kind.INT, None, LOW),
    ("sasl.login.read.timeout.ms", Kind.INT, None, LOW),
    ("sasl.login.refresh.buffer.seconds", Kind.SHORT, "300", MEDIUM),
    ("sasl.login.refresh.min.period.seconds", Kind.SHORT, "60", MEDIUM),
    ("sasl.login.refresh.window.factor", Kind.DOUBLE, "0.8", MEDIUM),
    ("sasl.login.refresh.window.jitter", Kind.DOUBLE, "0.05", MEDIUM),
    ("sasl.login.retry.backoff.max.ms", Kind.LONG, "10000", LOW),
    ("sasl.login.retry.backoff.ms", Kind.LONG, "100", LOW),
    ("sasl.oauthbearer.assertion.algorithm", Kind.STRING, "RS256", MEDIUM),
    ("sasl.oauthbearer.assertion.claim.aud", Kind.STRING, None, MEDIUM),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", Kind.INT, "300", LOW),
    ("sasl.oauthbearer.assertion.claim.iss", Kind.STRING, None, MEDIUM),
    ("sasl.oauthbearer.assertion.claim.jti.include", Kind.BOOLEAN, "false", MEDIUM),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", Kind.INT, "60", LOW),
    ("sasl.oauthbearer.assertion.claim.sub", Kind.STRING, None, MEDIUM),
    ("sasl.oauthbearer.assertion.file", Kind.STRING, None, MEDIUM),
    ("sasl.oauthbearer.assertion.private.key.file", Kind.STRING, None, MEDIUM),
    ("sasl.oauthbearer.assertion.private.key.passphrase", Kind.PASSWORD, None, MEDIUM),
    ("sasl.oauthbearer.assertion.template.file", Kind.STRING, None, MEDIUM),
    ("sasl.oauthbearer.client.credentials.client.id", Kind.STRING, None, MEDIUM),
    ("sasl.oauthbearer.client.credentials.client.secret", Kind.PASSWORD, None, MEDIUM),
    ("sasl.oauthbearer.scope", Kind.STRING, None, MEDIUM),
    ("sasl.oauthbearer.token.endpoint.url", Kind.STRING, None, MEDIUM),
)

_JAAS = (("sasl.jaas.config", Kind.PASSWORD, None, MEDIUM),)

_CHECKPOINTS = (
    ("log.flush.start.offset.checkpoint.interval.ms", Kind.INT, "60000", HIGH),
    ("replica.high.watermark.checkpoint.interval.ms", Kind.LONG, "5000", HIGH),
)

_FETCHERS = (("num.replica.fetchers", Kind.INT, "1", HIGH),)

_OTHER_BROKERS = (
    ("offsets.commit.timeout.ms", Kind.INT, "5000", HIGH),
    ("request.timeout.ms", Kind.INT, "30000", HIGH),
)

_OFFSETS_CODEC = (("offsets.topic.compression.codec", Kind.INT, "0", HIGH),)

ACCEPTED: dict[str, Unhonoured] = unhonoured(
    {
        "there is no KRaft quorum: metadata is in the broker's own store": _KRAFT,
        "belongs to the Java virtual machine or to threads that do not exist here": _JVM,
        "one connection to each leader fetches all its partitions": _FETCHERS,
        "no replica moves between directories, and other timeouts are fixed": _REPLICATION,
        "only the classic group protocol is served, the setting is for another one": _GROUPS,
        "a single process compacts one log after the other": _COMPACTION,
        "remote (tiered) storage is not built": _REMOTE,
        "TLS is that of OpenSSL, not of the Java virtual machine": _OPENSSL,
        "this broker does not log in to another one by OAUTHBEARER or GSSAPI": _LOGINS,
        "a broker obeys only listener.name.<listener>.<mechanism>.sasl.jaas.config": _JAAS,
        "this checkpoint is written together with the recovery points": _CHECKPOINTS,
        "a broker waits 30 s for another one, for a commit as long as it leads": _OTHER_BROKERS,
        "coordinators write uncompressed records": _OFFSETS_CODEC,
    }
)

# Settings that Kafka 4 removed. Older files still hold them: Kafka 4 ignores them, and so does this
# broker, with a warning.
GONE: Final = (
    r"zookeeper\..*|password\.encoder\..*|kafka\.csv\.metrics\..*|confluent\..*"
    r"|inter\.broker\.protocol\.version|log\.message\.format\.version"
    r"|log\.message\.downconversion\.enable|log\.message\.timestamp\.difference\.max\.ms"
    r"|control\.plane\.listener\.name|broker\.id\.generation\.enable|reserved\.broker\.max\.id"
    r"|controlled\.shutdown\.(max\.retries|retry\.backoff\.ms)|(advertised\.)?(host\.name|port)"
    r"|leader\.imbalance\.per\.broker\.percentage|offsets\.commit\.required\.acks"
    r"|delegation\.token\.master\.key|auto\.include\.jmx\.reporter|group\.coordinator\.new\.enable"
)

# KIP-98's names of settings that Kafka has under other names.
ALIASES = {
    "transactional.id.timeout.ms": "transactional.id.expiration.ms",
    "max.transaction.timeout.ms": "transaction.max.timeout.ms",
    "transaction.state.replication.factor": "transaction.state.log.replication.factor",
    "transaction.state.num.partitions": "transaction.state.log.num.partitions",
    "transaction.state.min.isr": "transaction.state.log.min.isr",
    "transaction.state.segment.bytes": "transaction.state.log.segment.bytes",
}
