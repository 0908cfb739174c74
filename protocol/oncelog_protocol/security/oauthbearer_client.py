"""The client's side of OAUTHBEARER (RFC 7628): a bearer token, and SASL extensions."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.oauthbearer import (
    DUMMY_RESPONSE,
    OAuthBearerError,
    read_failure,
    write_initial_response,
)
from oncelog_protocol.security.sasl_client import SaslClientError


class OAuthBearerClient:
    """The exchange of a token. After a failure the broker's message needs a response; the broker
    then refuses the authentication."""

    __slots__ = ("_complete", "_extensions", "_failure", "_token", "mechanism")

    def __init__(self, token: Secret, extensions: Mapping[str, str] | None = None) -> None:
        self.mechanism = SaslMechanism.OAUTHBEARER
        self._token = token
        self._extensions = dict(extensions or {})
        self._complete = False
        self._failure: str | None = None

    @property
    def is_complete(self) -> bool:
        return self._complete

    def first(self) -> bytes:
        """Return the message with the token. Raises SaslClientError for a token or an extension
        that a broker refuses."""
        try:
            return write_initial_response(self._token, self._extensions)
        except OAuthBearerError as error:
            raise SaslClientError(str(error)) from None

    def next(self, challenge: bytes) -> bytes | None:
        """Return None if the broker has accepted the token, else the response to its failure.
        Raises SaslClientError for a message after the end, or after that response."""
        if self._failure is not None:
            raise SaslClientError(f"the broker refused the token: {self._failure}")
        if self._complete:
            raise SaslClientError("a token of the broker after the last token")
        if not challenge:
            self._complete = True
            return None
        self._failure = read_failure(challenge)
        return DUMMY_RESPONSE
