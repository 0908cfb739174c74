"""The requests that every user sends: each names several resources, so that some are allowed and
others are denied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from oncelog_protocol.apis import Api, api_of

TOPICS: Final = ("pay", "payments", "orders")
MISSING: Final = "paid"
NAMES: Final = (*TOPICS, MISSING)
# No broker can create a topic of this name.
INVALID: Final = "pay!"
GROUPS: Final = ("pay", "orders")
IDS: Final = ("pay", "orders")
UNKNOWN_PRODUCER: Final = 1_000_000
# Users with a number divisible by this create and delete topics.
CHANGING: Final = 25
TOPIC, BROKER = 2, 4


class User(NamedTuple):
    """A user on one broker, with the ids of the broker's topics."""

    number: int
    topic_ids: Mapping[str, bytes]

    @property
    def changes_topics(self) -> bool:
        return self.number % CHANGING == 0

    def deletable(self) -> str:
        """Return the topic that only this user deletes. It exists if the user changes topics."""
        return deletable(self.number) if self.changes_topics else MISSING


def deletable(number: int) -> str:
    return f"orders-{number}"


class Template(NamedTuple):
    """`make` makes the request of a user. Each user sends it in a version that is drawn from
    `versions`. `is_constant`: all users send the same request."""

    name: str
    api: Api
    make: Callable[[User], Any]
    versions: range
    is_constant: bool


TEMPLATES: Final[list[Template]] = []


def template(
    since: int = 0, until: int = 99, *, is_constant: bool = False
) -> Callable[[Callable[[User], Any]], Callable[[User], Any]]:
    """Return a decorator that adds a template, with the versions of its API from `since` to
    `until`."""

    def add(make: Callable[[User], Any]) -> Callable[[User], Any]:
        made = make(User(1, dict.fromkeys(NAMES, bytes(16))))
        api = api_of(type(made))
        versions = range(max(since, api.oldest), min(until, api.latest) + 1)
        TEMPLATES.append(Template(make.__name__, api, make, versions, is_constant))
        return make

    return add


def constant(request: Any, name: str, since: int = 0, until: int = 99) -> None:
    """Add a template with the same request for every user."""

    def make(user: User) -> Any:
        return request

    make.__name__ = name
    template(since, until, is_constant=True)(make)
