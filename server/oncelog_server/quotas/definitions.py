"""The quotas of a broker, made from their definitions in the metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from oncelog_protocol.types import INT32_MAX
from oncelog_server.quotas.addresses import AddressLimits
from oncelog_server.quotas.client_quota import MutationQuota, RateQuota
from oncelog_server.quotas.entities import Entity, EntityLimits, Quota
from oncelog_server.quotas.limits import ClientLimits, Limits
from oncelog_server.quotas.windows import Windows

Q = TypeVar("Q", RateQuota, MutationQuota)


class Definitions:
    """The definitions of an image. Each method returns a quota, None if the quota is not defined
    for any client. Its argument `old` is the quota of the previous image. The new quota keeps what
    clients have used of the old one."""

    def __init__(self, quotas: Mapping[Entity, EntityLimits], windows: Windows) -> None:
        self._quotas = quotas
        self._windows = windows

    def produce(self, old: RateQuota | None) -> RateQuota | None:
        return self._rate(old, self._limits(Quota.PRODUCE))

    def fetch(self, old: RateQuota | None) -> RateQuota | None:
        return self._rate(old, self._limits(Quota.FETCH))

    def request(self, old: RateQuota | None) -> RateQuota | None:
        return self._rate(old, self._limits(Quota.REQUEST), self._windows.length_ms)

    def addresses(self, old: RateQuota | None) -> RateQuota | None:
        return self._rate(old, AddressLimits(self._quotas), self._windows.length_ms)

    def mutation(
        self, old: MutationQuota | None, windows: Windows, now_ms: Callable[[], int]
    ) -> MutationQuota | None:
        limits = self._limits(Quota.MUTATION)
        return _changed(old, limits, lambda: MutationQuota(limits, windows, now_ms))

    def _limits(self, quota: Quota) -> ClientLimits:
        return ClientLimits(self._quotas, quota)

    def _rate(
        self, old: RateQuota | None, limits: Limits, most_throttle_ms: int = INT32_MAX
    ) -> RateQuota | None:
        return _changed(old, limits, lambda: RateQuota(limits, self._windows, most_throttle_ms))


def _changed(old: Q | None, limits: Limits, new: Callable[[], Q]) -> Q | None:
    if not limits:
        return None
    if old is None:
        return new()
    old.usage.limits = limits
    return old
