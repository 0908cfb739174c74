"""The disks of the brokers, for `cluster health` and `doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog_client.cli.quantities import size_text

if TYPE_CHECKING:
    from oncelog_client.admin import Admin, LogDirDescription

# Shares of free space. A disk below LITTLE is short of space, and a disk below LEAST counts as
# full.
LITTLE: Final = 0.10
LEAST: Final = 0.03


class Disk(NamedTuple):
    """One data directory. `is_short`: less than LITTLE of the disk is free. `is_full`: less than
    LEAST is free. Both are true if the broker cannot use the directory."""

    broker: int
    found: str
    is_full: bool
    is_short: bool


async def disks(admin: Admin) -> list[Disk]:
    """Return the data directories of all brokers, in the order of the brokers' ids."""
    described = await admin.describe_log_dirs()
    return [
        _disk(broker, directory) for broker in sorted(described) for directory in described[broker]
    ]


def _disk(broker: int, directory: LogDirDescription) -> Disk:
    if directory.error is not None:
        return Disk(broker, f"{directory.path}: {directory.error}", True, True)
    if directory.total_bytes <= 0:
        return Disk(broker, f"{directory.path}: not reported by the broker", False, False)
    share = directory.usable_bytes / directory.total_bytes
    usable, total = size_text(directory.usable_bytes), size_text(directory.total_bytes)
    found = f"{directory.path}: {usable} of {total} free"
    return Disk(broker, found, share < LEAST, share < LITTLE)
