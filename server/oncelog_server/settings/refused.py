"""Kafka's settings that are refused, each with the reason. A broker that ignores them would break a
promise.

A row is a name, a type, Kafka's default and its importance. Kafka's default, or an empty value, is
accepted, because it requires nothing.
"""

from __future__ import annotations

from oncelog_server.settings.table import Importance, Kind, Unhonoured, unhonoured

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

_CLASSES = (
    ("alter.config.policy.class.name", Kind.CLASS, None, LOW),
    ("client.quota.callback.class", Kind.CLASS, None, LOW),
    ("create.topic.policy.class.name", Kind.CLASS, None, LOW),
    (
        "principal.builder.class",
        Kind.CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        MEDIUM,
    ),
    ("replica.selector.class", Kind.STRING, None, MEDIUM),
)

_TOKENS = (
    ("delegation.token.expiry.check.interval.ms", Kind.LONG, "3600000", LOW),
    ("delegation.token.expiry.time.ms", Kind.LONG, "86400000", MEDIUM),
    ("delegation.token.max.lifetime.ms", Kind.LONG, "604800000", MEDIUM),
    ("delegation.token.secret.key", Kind.PASSWORD, None, MEDIUM),
)

_KERBEROS = (
    ("sasl.kerberos.kinit.cmd", Kind.STRING, "/usr/bin/kinit", MEDIUM),
    ("sasl.kerberos.min.time.before.relogin", Kind.LONG, "60000", MEDIUM),
    ("sasl.kerberos.principal.to.local.rules", Kind.LIST, "DEFAULT", MEDIUM),
    ("sasl.kerberos.service.name", Kind.STRING, None, MEDIUM),
    ("sasl.kerberos.ticket.renew.jitter", Kind.DOUBLE, "0.05", MEDIUM),
    ("sasl.kerberos.ticket.renew.window.factor", Kind.DOUBLE, "0.8", MEDIUM),
)

_LOGIN_CLASSES = (
    ("sasl.client.callback.handler.class", Kind.CLASS, None, MEDIUM),
    ("sasl.login.callback.handler.class", Kind.CLASS, None, MEDIUM),
    ("sasl.login.class", Kind.CLASS, None, MEDIUM),
    (
        "sasl.oauthbearer.jwt.retriever.class",
        Kind.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        MEDIUM,
    ),
    (
        "sasl.oauthbearer.jwt.validator.class",
        Kind.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        MEDIUM,
    ),
    ("ssl.engine.factory.class", Kind.CLASS, None, LOW),
)

_REMOTE = (
    ("log.local.retention.bytes", Kind.LONG, "-2", MEDIUM),
    ("log.local.retention.ms", Kind.LONG, "-2", MEDIUM),
    (
        "remote.log.metadata.manager.class.name",
        Kind.STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        MEDIUM,
    ),
    ("remote.log.metadata.manager.class.path", Kind.STRING, None, MEDIUM),
    ("remote.log.storage.manager.class.name", Kind.STRING, None, MEDIUM),
    ("remote.log.storage.manager.class.path", Kind.STRING, None, MEDIUM),
    ("remote.log.storage.manager.impl.prefix", Kind.STRING, "rsm.config.", MEDIUM),
    ("remote.log.storage.system.enable", Kind.BOOLEAN, "false", MEDIUM),
)

_DIRECTORIES = (("cordoned.log.dirs", Kind.LIST, "", MEDIUM),)

REFUSED: dict[str, Unhonoured] = unhonoured(
    {
        "Java classes (policies, plug-ins) cannot be loaded": _CLASSES + _LOGIN_CLASSES,
        "delegation tokens are not built": _TOKENS,
        "GSSAPI (Kerberos) is not built: use SCRAM, PLAIN, OAUTHBEARER or certificates": _KERBEROS,
        "remote (tiered) storage is not built": _REMOTE,
        "there is one data directory: it cannot be cordoned": _DIRECTORIES,
    }
)
