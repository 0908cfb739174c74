"""Honored settings of the quotas of clients and of replication."""

from __future__ import annotations

from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.table import Importance, Kind, at_least, honoured

LOW = Importance.LOW


class QuotaSettings(ImmutableSettings):
    """Names, defaults and ranges are Kafka 4.3's."""

    quota_window_num: int = honoured(
        Kind.INT,
        11,
        "Number of samples of a rate: of the bytes and the request time of a client, of new "
        "connections.",
        at_least(1),
        importance=LOW,
    )
    quota_window_size_seconds: int = honoured(
        Kind.INT,
        1,
        "Length of each of these samples.",
        at_least(1),
        importance=LOW,
    )
    controller_quota_window_num: int = honoured(
        Kind.INT,
        11,
        "Number of windows for the quota on created and deleted partitions. A client that has used "
        "nothing may create as many partitions at once as its rate allows in all windows.",
        at_least(1),
        importance=LOW,
    )
    controller_quota_window_size_seconds: int = honoured(
        Kind.INT,
        1,
        "Length of each of these windows.",
        at_least(1),
        importance=LOW,
    )
    replication_quota_window_num: int = honoured(
        Kind.INT,
        11,
        "Number of samples of the bytes of throttled replicas.",
        at_least(1),
        importance=LOW,
    )
    replication_quota_window_size_seconds: int = honoured(
        Kind.INT,
        1,
        "Length of each of these samples.",
        at_least(1),
        importance=LOW,
    )
