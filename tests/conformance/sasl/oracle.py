"""Kafka's SASL classes in a JVM behind a pipe."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import class_archive, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

_SOURCE = Path(__file__).with_name("SaslOracle.java")
_QUIET = "-Dorg.apache.logging.log4j.level=OFF"


class OracleError(Exception):
    """An exception of Java. `kind` is the simple name of its class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class Step(NamedTuple):
    """A token of Java, None if there is none; `name` is the authenticated user of a server."""

    token: bytes | None
    is_complete: bool
    name: str | None


class SaslOracle:
    """A JVM with one client and one server at a time."""

    def __init__(self, jars: str) -> None:
        options = [*TEST_JVM_OPTIONS, *class_archive().options, _QUIET]
        # The jars come first: Java accepts a class archive only if the class path begins with the
        # jars of the archive.
        path = f"{jars}:{compiled(_SOURCE, jars)}"
        self._process = subprocess.Popen(
            [java(), *options, "-cp", path, "SaslOracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a command and return its result. Raises OracleError for an exception of Java."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op} | fields) + "\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in result:
            raise OracleError(result["error"], result["message"])
        return result

    def client(
        self,
        mechanism: str,
        username: str,
        password: str,
        extensions: Mapping[str, str] | None = None,
    ) -> bytes:
        """Start a client of Kafka, and return its first token."""
        fields = {"username": username, "password": password, "extensions": extensions or {}}
        token = _step(self.call("client", mechanism=mechanism, **fields)).token
        assert token is not None
        return token

    def challenge(self, token: bytes) -> Step:
        """Give the client a token of a server."""
        return _step(self.call("challenge", token=b64encode(token).decode()))

    def server(self, mechanism: str, options: Mapping[str, str], iterations: int = 4096) -> None:
        """Start a server of Kafka. `options` are those of PlainLoginModule for PLAIN, and the
        passwords of the users for SCRAM."""
        self.call("server", mechanism=mechanism, options=dict(options), iterations=iterations)

    def response(self, token: bytes) -> Step:
        """Give the server a token of a client."""
        return _step(self.call("response", token=b64encode(token).decode()))


def _step(result: dict[str, Any]) -> Step:
    token = result["token"]
    return Step(None if token is None else b64decode(token), result["complete"], result.get("name"))
