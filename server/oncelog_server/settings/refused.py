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
    ("config.providers", Kind.LIST, "", LOW),
    ("create.topic.policy.class.name", Kind.CLASS, None, LOW),
    (
        "principal.builder.class",
        Kind.CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        MEDIUM,
    ),
    ("replica.selector.class", Kind.STRING, None, MEDIUM),
)

_SECURITY = (
    ("connections.max.reauth.ms", Kind.LONG, "0", MEDIUM),
    ("delegation.token.expiry.check.interval.ms", Kind.LONG, "3600000", LOW),
    ("delegation.token.expiry.time.ms", Kind.LONG, "86400000", MEDIUM),
    ("delegation.token.max.lifetime.ms", Kind.LONG, "604800000", MEDIUM),
    ("delegation.token.secret.key", Kind.PASSWORD, None, MEDIUM),
    ("sasl.client.callback.handler.class", Kind.CLASS, None, MEDIUM),
    ("sasl.enabled.mechanisms", Kind.LIST, "GSSAPI", MEDIUM),
    ("sasl.jaas.config", Kind.PASSWORD, None, MEDIUM),
    ("sasl.kerberos.kinit.cmd", Kind.STRING, "/usr/bin/kinit", MEDIUM),
    ("sasl.kerberos.min.time.before.relogin", Kind.LONG, "60000", MEDIUM),
    ("sasl.kerberos.principal.to.local.rules", Kind.LIST, "DEFAULT", MEDIUM),
    ("sasl.kerberos.service.name", Kind.STRING, None, MEDIUM),
    ("sasl.kerberos.ticket.renew.jitter", Kind.DOUBLE, "0.05", MEDIUM),
    ("sasl.kerberos.ticket.renew.window.factor", Kind.DOUBLE, "0.8", MEDIUM),
    ("sasl.login.callback.handler.class", Kind.CLASS, None, MEDIUM),
    ("sasl.login.class", Kind.CLASS, None, MEDIUM),
    ("sasl.login.connect.timeout.ms", Kind.INT, None, LOW),
    ("sasl.login.read.timeout.ms", Kind.INT, None, LOW),
    ("sasl.login.refresh.buffer.seconds", Kind.SHORT, "300", MEDIUM),
    ("sasl.login.refresh.min.period.seconds", Kind.SHORT, "60", MEDIUM),
    ("sasl.login.refresh.window.factor", Kind.DOUBLE, "0.8", MEDIUM),
    ("sasl.login.refresh.window.jitter", Kind.DOUBLE, "0.05", MEDIUM),
    ("sasl.login.retry.backoff.max.ms", Kind.LONG, "10000", LOW),
    ("sasl.login.retry.backoff.ms", Kind.LONG, "100", LOW),
    ("sasl.mechanism.controller.protocol", Kind.STRING, "GSSAPI", HIGH),
    ("sasl.mechanism.inter.broker.protocol", Kind.STRING, "GSSAPI", MEDIUM),
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
    ("sasl.oauthbearer.clock.skew.seconds", Kind.INT, "30", LOW),
    ("sasl.oauthbearer.expected.audience", Kind.LIST, "", HIGH),
    ("sasl.oauthbearer.expected.issuer", Kind.STRING, None, HIGH),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", Kind.LONG, "3600000", LOW),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Kind.LONG, "10000", LOW),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Kind.LONG, "100", LOW),
    ("sasl.oauthbearer.jwks.endpoint.url", Kind.STRING, None, MEDIUM),
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
    ("sasl.oauthbearer.scope", Kind.STRING, None, MEDIUM),
    ("sasl.oauthbearer.scope.claim.name", Kind.STRING, "scope", LOW),
    ("sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub", LOW),
    ("sasl.oauthbearer.token.endpoint.url", Kind.STRING, None, MEDIUM),
    ("sasl.server.callback.handler.class", Kind.CLASS, None, MEDIUM),
    ("sasl.server.max.receive.size", Kind.INT, "524288", MEDIUM),
    ("security.inter.broker.protocol", Kind.STRING, "PLAINTEXT", MEDIUM),
    ("security.providers", Kind.STRING, None, LOW),
    ("ssl.allow.dn.changes", Kind.BOOLEAN, "false", LOW),
    ("ssl.allow.san.changes", Kind.BOOLEAN, "false", LOW),
    ("ssl.cipher.suites", Kind.LIST, "", MEDIUM),
    ("ssl.client.auth", Kind.STRING, "none", MEDIUM),
    ("ssl.enabled.protocols", Kind.LIST, "TLSv1.2,TLSv1.3", MEDIUM),
    ("ssl.engine.factory.class", Kind.CLASS, None, LOW),
    ("ssl.key.password", Kind.PASSWORD, None, MEDIUM),
    ("ssl.keymanager.algorithm", Kind.STRING, "SunX509", MEDIUM),
    ("ssl.keystore.certificate.chain", Kind.PASSWORD, None, MEDIUM),
    ("ssl.keystore.key", Kind.PASSWORD, None, MEDIUM),
    ("ssl.keystore.location", Kind.STRING, None, MEDIUM),
    ("ssl.keystore.password", Kind.PASSWORD, None, MEDIUM),
    ("ssl.keystore.type", Kind.STRING, "JKS", MEDIUM),
    ("ssl.principal.mapping.rules", Kind.STRING, "DEFAULT", LOW),
    ("ssl.protocol", Kind.STRING, "TLSv1.3", MEDIUM),
    ("ssl.provider", Kind.STRING, None, MEDIUM),
    ("ssl.secure.random.implementation", Kind.STRING, None, LOW),
    ("ssl.trustmanager.algorithm", Kind.STRING, "PKIX", MEDIUM),
    ("ssl.truststore.certificates", Kind.PASSWORD, None, MEDIUM),
    ("ssl.truststore.location", Kind.STRING, None, MEDIUM),
    ("ssl.truststore.password", Kind.PASSWORD, None, MEDIUM),
    ("ssl.truststore.type", Kind.STRING, "JKS", MEDIUM),
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

_RATE = (("max.connection.creation.rate", Kind.INT, "2147483647", MEDIUM),)

REFUSED: dict[str, Unhonoured] = unhonoured(
    {
        "Java classes (policies, plug-ins) cannot be loaded": _CLASSES,
        "TLS, SASL and delegation tokens are not built yet, only PLAINTEXT": _SECURITY,
        "remote (tiered) storage is not built": _REMOTE,
        "there is one data directory: it cannot be cordoned": _DIRECTORIES,
        "the rate of connections is not limited yet, only their number": _RATE,
    }
)
