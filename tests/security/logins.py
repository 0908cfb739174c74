"""The logins of the tests, in the settings of each client library."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiokafka.abc import AbstractTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from oncelog_client.core.security_settings import SecuritySettings
from tests.harness.certificates import Identity

_OAUTHBEARER: Final = "OAUTHBEARER"
# Java's login module for each mechanism.
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM_MODULE,
    "SCRAM-SHA-512": _SCRAM_MODULE,
    _OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_TOKEN_OF_FILE: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
)
_TOKEN_LIFETIME_S: Final = 300


@dataclass(frozen=True, slots=True)
class Login:
    """The login of a client. `protocol` is the listener's security protocol. With OAUTHBEARER,
    `secret` is a token, else a password. `folder` is for files that a library reads."""

    protocol: str
    folder: Path
    authority: Path | None = None
    identity: Identity | None = None
    mechanism: str | None = None
    user: str = ""
    secret: str = ""

    @property
    def librdkafka(self) -> dict[str, Any]:
        """Return the settings of librdkafka."""
        settings: dict[str, Any] = {"security.protocol": self.protocol}
        if self.authority is not None:
            settings["ssl.ca.location"] = str(self.authority)
        if self.identity is not None:
            settings["ssl.certificate.pem"] = self.identity.chain
            settings["ssl.key.pem"] = self.identity.key
        if self.mechanism == _OAUTHBEARER:
            settings["sasl.mechanism"] = _OAUTHBEARER
            settings["oauth_cb"] = lambda _: (self.secret, time.time() + _TOKEN_LIFETIME_S)
        elif self.mechanism is not None:
            settings["sasl.mechanism"] = self.mechanism
            settings |= {"sasl.username": self.user, "sasl.password": self.secret}
        return settings

    @property
    def aiokafka(self) -> dict[str, Any]:
        """Return the arguments of aiokafka's clients."""
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.authority is not None:
            settings["ssl_context"] = self._ssl_context(self.authority)
        if self.mechanism == _OAUTHBEARER:
            settings["sasl_mechanism"] = _OAUTHBEARER
            settings["sasl_oauth_token_provider"] = _AiokafkaToken(self.secret)
        elif self.mechanism is not None:
            settings["sasl_mechanism"] = self.mechanism
            settings |= {"sasl_plain_username": self.user, "sasl_plain_password": self.secret}
        return settings

    @property
    def kafka_python(self) -> dict[str, Any]:
        """Return the arguments of kafka-python's clients."""
        settings = self.aiokafka
        if self.mechanism == _OAUTHBEARER:
            settings["sasl_oauth_token_provider"] = _KafkaPythonToken(self.secret)
        return settings

    @property
    def java(self) -> dict[str, str]:
        """Return the properties of Java's clients."""
        settings = {"security.protocol": self.protocol}
        if self.authority is not None:
            settings["ssl.truststore.type"] = "PEM"
            settings["ssl.truststore.location"] = str(self.authority)
        if self.identity is not None:
            store = self._file("keystore.pem", self.identity.pkcs8_key() + self.identity.chain)
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
        if self.mechanism is None:
            return settings
        options = f' username="{self.user}" password="{self.secret}"'
        if self.mechanism == _OAUTHBEARER:
            options = ""
            settings["sasl.oauthbearer.token.endpoint.url"] = self.token_file.as_uri()
            settings["sasl.login.callback.handler.class"] = _TOKEN_OF_FILE
        settings["sasl.mechanism"] = self.mechanism
        settings["sasl.jaas.config"] = f"{_MODULES[self.mechanism]} required{options};"
        return settings

    @property
    def ours(self) -> SecuritySettings:
        """Return the settings of oncelog's own client."""
        settings: SecuritySettings = {"security_protocol": self.protocol}
        if self.authority is not None:
            settings |= {
                "ssl_truststore_type": "PEM",
                "ssl_truststore_location": str(self.authority),
            }
        if self.identity is not None:
            settings |= {
                "ssl_keystore_type": "PEM",
                "ssl_keystore_key": self.identity.pkcs8_key(),
                "ssl_keystore_certificate_chain": self.identity.chain,
            }
        if self.mechanism == _OAUTHBEARER:
            settings |= {
                "sasl_mechanism": _OAUTHBEARER,
                "sasl_oauthbearer_token": lambda: self.secret,
            }
        elif self.mechanism is not None:
            settings |= {
                "sasl_mechanism": self.mechanism,
                "sasl_username": self.user,
                "sasl_password": self.secret,
            }
        return settings

    @property
    def java_file(self) -> Path:
        """Return a properties file, for Java's tools."""
        lines = (f"{name}={value}\n" for name, value in self.java.items())
        return self._file("client.properties", "".join(lines))

    @property
    def token_file(self) -> Path:
        """Return the file from which Java reads the token."""
        return self._file("token", self.secret)

    def _file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def _ssl_context(self, authority: Path) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(authority))
        if self.identity is not None:
            context.load_cert_chain(self.identity.pem_path)
        return context


class _AiokafkaToken(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class _KafkaPythonToken(KafkaPythonTokenProvider):  # type: ignore[misc]  # no types
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token
