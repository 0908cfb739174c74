"""What two images of the cluster differ in: what a broker has to do when its image advances."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from oncelog_server.cluster.image import ClusterImage, PartitionImage, TopicImage


class PartitionChange(msgspec.Struct, frozen=True):
    """A partition came (`old` is None), went (`new` is None) or changed. `topic` is its topic as it
    is now, or as it was last."""

    topic: TopicImage
    old: PartitionImage | None
    new: PartitionImage | None

    @property
    def partition(self) -> int:
        found = self.new or self.old
        assert found is not None
        return found.partition


class ImageDelta(msgspec.Struct, frozen=True):
    """A topic that was deleted and created again is in both lists, with its two ids."""

    topics_created: tuple[TopicImage, ...] = ()
    topics_deleted: tuple[TopicImage, ...] = ()
    # Topics whose own settings changed: as they are now.
    settings_changed: tuple[TopicImage, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    brokers_changed: bool = False

    @classmethod
    def between(
        cls, old: ClusterImage, new: ClusterImage, names: Collection[str] | None = None
    ) -> ImageDelta:
        """What differs. `names`: of the topics that may; by default all, which takes time where
        there are thousands."""
        created: list[TopicImage] = []
        deleted: list[TopicImage] = []
        settings: list[TopicImage] = []
        # Those of deleted topics come first: a new one may have the name.
        gone: list[PartitionChange] = []
        partitions: list[PartitionChange] = []
        if names is None:
            names = {**old.topics, **new.topics}
        for name in names if new.topics is not old.topics else ():
            was, topic = old.topics.get(name), new.topics.get(name)
            if was is topic:
                continue
            if was is not None and (topic is None or topic.id != was.id):
                deleted.append(was)
                gone += [PartitionChange(was, partition, None) for partition in was.partitions]
                was = None
            if topic is None:
                continue
            if was is None:
                created.append(topic)
                partitions += [
                    PartitionChange(topic, None, partition) for partition in topic.partitions
                ]
                continue
            if was.settings != topic.settings:
                settings.append(topic)
            partitions += _changed_partitions(was, topic)
        return cls(
            tuple(created),
            tuple(deleted),
            tuple(settings),
            (*gone, *partitions),
            new.brokers is not old.brokers and new.brokers != old.brokers,
        )


def _changed_partitions(was: TopicImage, topic: TopicImage) -> list[PartitionChange]:
    """The number of partitions never falls."""
    changes = [
        PartitionChange(topic, before, now)
        for before, now in zip(was.partitions, topic.partitions, strict=False)
        if before is not now and before != now
    ]
    added = topic.partitions[len(was.partitions) :]
    return changes + [PartitionChange(topic, None, one) for one in added]
