"""The numbers of iterations that the credentials of SCRAM have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from oncelog_protocol.security.scram_credential import (
    LEAST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)

Credentials = Mapping[tuple[ScramMechanism, str], ScramCredential]

# A client's first message costs a hash for each number. Few clusters have more than one or two.
MOST_NUMBERS: Final = 16


class ScramIterations:
    """The numbers of iterations by mechanism, of the credentials that `credentials` returns. They
    are collected again only if it returns another object."""

    def __init__(self, credentials: Callable[[], Credentials]) -> None:
        self._credentials = credentials
        self._collected: Credentials | None = None
        self._numbers: dict[ScramMechanism, tuple[int, ...]] = {}

    def of(self, mechanism: ScramMechanism) -> Collection[int]:
        """Return the numbers in use, without those of credentials with which no user can log in.
        If there is none, return the least number alone."""
        credentials = self._credentials()
        if credentials is not self._collected:
            self._collect(credentials)
        return self._numbers.get(mechanism, (LEAST_ITERATIONS,))

    def _collect(self, credentials: Credentials) -> None:
        found: dict[ScramMechanism, set[int]] = {}
        for (mechanism, _), credential in credentials.items():
            if credential.iterations >= LEAST_ITERATIONS:
                found.setdefault(mechanism, set()).add(credential.iterations)
        self._collected = credentials
        self._numbers = {
            mechanism: tuple(sorted(numbers)[:MOST_NUMBERS]) for mechanism, numbers in found.items()
        }
