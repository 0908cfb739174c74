"""The difference between two images: the changes that a broker carries out when its image
advances."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from oncelog_server.cluster.image import ClusterImage, PartitionImage, TopicImage


class PartitionChange(msgspec.Struct, frozen=True):
    """A partition that was added (`old` is None), removed (`new` is None) or changed.

    `topic` is the partition's topic in the new image, or in the old one if the topic was deleted.
    """

    topic: TopicImage
    old: PartitionImage | None
    new: PartitionImage | None

    @property
    def partition(self) -> int:
        found = self.new or self.old
        assert found is not None
        return found.partition


class ImageDelta(msgspec.Struct, frozen=True):
    """The difference between two images.

    A topic that was deleted and created again is in `topics_deleted` with its old id, and in
    `topics_created` with its new id.
    """

    topics_created: tuple[TopicImage, ...] = ()
    topics_deleted: tuple[TopicImage, ...] = ()
    # Topics of the new image with changes of their own settings.
    settings_changed: tuple[TopicImage, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    brokers_changed: bool = False

    @classmethod
    def between(
        cls, old: ClusterImage, new: ClusterImage, names: Collection[str] | None = None
    ) -> ImageDelta:
        """Return the difference between `old` and `new`.

        `names` limits the comparison to these topics. Without it all topics are compared, which
        takes time with thousands of them.
        """
        created: list[TopicImage] = []
        deleted: list[TopicImage] = []
        settings: list[TopicImage] = []
        # Partitions of deleted topics come first, because a new topic may have the same name.
        removed: list[PartitionChange] = []
        partitions: list[PartitionChange] = []
        if names is None:
            names = {**old.topics, **new.topics}
        for name in names if new.topics is not old.topics else ():
            previous, topic = old.topics.get(name), new.topics.get(name)
            if previous is topic:
                continue
            if previous is not None and (topic is None or topic.id != previous.id):
                deleted.append(previous)
                removed += [
                    PartitionChange(previous, partition, None) for partition in previous.partitions
                ]
                previous = None
            if topic is None:
                continue
            if previous is None:
                created.append(topic)
                partitions += [
                    PartitionChange(topic, None, partition) for partition in topic.partitions
                ]
                continue
            if previous.settings != topic.settings:
                settings.append(topic)
            partitions += _changed_partitions(previous, topic)
        return cls(
            tuple(created),
            tuple(deleted),
            tuple(settings),
            (*removed, *partitions),
            new.brokers is not old.brokers and new.brokers != old.brokers,
        )


def _changed_partitions(previous: TopicImage, topic: TopicImage) -> list[PartitionChange]:
    """Return the partitions that changed or were added. A topic never loses partitions."""
    changes = [
        PartitionChange(topic, before, now)
        for before, now in zip(previous.partitions, topic.partitions, strict=False)
        if before is not now and before != now
    ]
    added = topic.partitions[len(previous.partitions) :]
    return changes + [PartitionChange(topic, None, partition) for partition in added]
