"""The SASL authentication of a connection to another broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest
from oncelog_protocol.security.sasl_client import (
    AuthenticationFailed,
    SaslClient,
    SaslRequest,
    SaslResponse,
    authenticate,
)
from oncelog_protocol.security.scram_client import preparation

# Brokers speak the same versions.
_VERSIONS: Final[dict[type, int]] = {SaslHandshakeRequest: 1, SaslAuthenticateRequest: 2}


class LinkAuthentication:
    """One authentication. `failure` is the reason if the other broker refuses it. After success,
    `lifetime_ms` is the time until the session ends, 0 if it does not end."""

    def __init__(self, client: SaslClient) -> None:
        self._client = client
        self._steps = authenticate(client, *_VERSIONS.values())
        self.failure: str | None = None
        self.lifetime_ms = 0

    def first(self) -> tuple[SaslRequest, int]:
        """Return the first request and its version."""
        return _with_version(next(self._steps))

    def preparation(self, response: SaslResponse) -> Callable[[], object] | None:
        """Return work that must run on a thread before `next(response)`, None if there is none."""
        return preparation(self._client, response)

    def next(self, response: SaslResponse) -> tuple[SaslRequest, int] | None:
        """Return the request after a response, with its version. Return None at the end."""
        try:
            return _with_version(self._steps.send(response))
        except StopIteration as done:
            self.lifetime_ms = done.value
        except AuthenticationFailed as failed:
            self.failure = str(failed)
        return None


def _with_version(request: SaslRequest) -> tuple[SaslRequest, int]:
    return request, _VERSIONS[type(request)]
