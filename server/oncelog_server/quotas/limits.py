"""The limit of one quota that holds for a client: the most specific one that is defined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from oncelog_server.quotas.entities import CLIENT_ID, IP, USER, Entity, EntityLimits, Quota

# The name of a type that an entity does not have. No entity has an empty name.
ABSENT: Final = ""
DEFAULT: Final = None

# A user and a client id, each with a name, DEFAULT or ABSENT.
_Pair = tuple[str | None, str | None]


class _Level(NamedTuple):
    """A level of definitions. A field is True if each definition of the level names a single user
    or client id. DEFAULT and ABSENT stand for themselves: all definitions of the level have this
    value."""

    user: bool | str | None
    client_id: bool | str | None


# The most specific level comes first (KIP-55, Kafka's ClientQuotaManager).
LEVELS: Final = (
    _Level(True, True),
    _Level(True, DEFAULT),
    _Level(True, ABSENT),
    _Level(DEFAULT, True),
    _Level(DEFAULT, DEFAULT),
    _Level(DEFAULT, ABSENT),
    _Level(ABSENT, True),
    _Level(ABSENT, DEFAULT),
)


class FoundLimit(NamedTuple):
    """A limit with the clients that use it up together: those of this user and client id. An empty
    text stands for all users, or for all client ids."""

    limit: float
    user: str
    client_id: str


class Limits(Protocol):
    """The limits of one quota."""

    def of(self, user: str, client_id: str) -> FoundLimit | None:
        """Return the limit for a client, None if there is none."""
        ...

    def __bool__(self) -> bool:
        """Return True if there is a definition."""
        ...


class ClientLimits:
    """The limits of one quota. Only the levels that have a definition are looked at."""

    def __init__(self, quotas: Mapping[Entity, EntityLimits], quota: Quota) -> None:
        by_level: dict[_Level, dict[_Pair, float]] = {}
        for entity, limits in quotas.items():
            names = dict(entity)
            if quota in limits and IP not in names:
                pair = names.get(USER, ABSENT), names.get(CLIENT_ID, ABSENT)
                by_level.setdefault(_level_of(pair), {})[pair] = limits[quota]
        self._levels = [(*level, by_level[level]) for level in LEVELS if level in by_level]

    def __bool__(self) -> bool:
        """Return True if there is a definition."""
        return bool(self._levels)

    def of(self, user: str, client_id: str) -> FoundLimit | None:
        """Return the limit for a client, None if there is none.

        As in Kafka, an empty client id has no limit by client id, not even the default. An empty
        user has no limit by user.
        """
        for of_user, of_client_id, limits in self._levels:
            limit = limits.get(
                (
                    user if of_user is True else of_user,
                    client_id if of_client_id is True else of_client_id,
                )  # type: ignore[arg-type]  # True is replaced
            )
            if (
                limit is not None
                and (user or of_user == ABSENT)
                and (client_id or of_client_id == ABSENT)
            ):
                return FoundLimit(
                    limit,
                    ABSENT if of_user == ABSENT else user,
                    ABSENT if of_client_id == ABSENT else client_id,
                )
        return None


def _level_of(pair: _Pair) -> _Level:
    user, client_id = pair
    return _Level(True if user else user, True if client_id else client_id)
