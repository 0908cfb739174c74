"""What the data source needs of its surroundings, with messages that say how to get it."""

from __future__ import annotations

from typing import Final

import pyspark

OLDEST_PYSPARK: Final = (4, 2)


class UnsupportedSpark(Exception):
    """This PySpark cannot run the data source."""


def check_pyspark(version: str = pyspark.__version__) -> None:
    """Raises UnsupportedSpark before 4.2: limits of `latestOffset` and splitting for
    `Trigger.AvailableNow` came with it."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < OLDEST_PYSPARK:
        wanted = ".".join(map(str, OLDEST_PYSPARK))
        raise UnsupportedSpark(
            f'format("oncelog") needs PySpark {wanted} or newer, this is {version}:'
            f' pip install "pyspark>={wanted}"'
        )
