"""The callbacks of the broker's parts that keep topics on disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

WaitForTopics = Callable[[Collection[str]], Awaitable[None]]


class TopicCallbacks:
    """The callbacks. `ClusterMetadata.subscribe` says what each callback must do."""

    def __init__(self) -> None:
        self._created: list[WaitForTopics] = []
        self._deleted: list[WaitForTopics] = []
        self._give_up: list[Callable[[str], bool]] = []

    def add(
        self,
        created: WaitForTopics | None,
        deleted: WaitForTopics | None,
        give_up: Callable[[str], bool] | None,
    ) -> None:
        if created is not None:
            self._created.append(created)
        if deleted is not None:
            self._deleted.append(deleted)
        if give_up is not None:
            self._give_up.append(give_up)

    async def created(self, names: Collection[str]) -> None:
        """Return when these topics can be used. Raises Refused if a topic cannot be kept on
        disk."""
        for wait in self._created:
            await wait(names)

    async def deleted(self, names: Collection[str]) -> None:
        """Return when no file is left that could conflict with new topics of these names. Raises
        Refused if such files may be left.
        """
        for wait in self._deleted:
            await wait(names)

    def give_up(self, name: str) -> bool:
        """Remove a new topic from this broker. Return False if the topic holds data and must
        stay."""
        return all(give_up(name) for give_up in self._give_up)
