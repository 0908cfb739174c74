"""The election of the controller: the broker that writes the key `controller` first, under its own
lease. The key ends with the lease, and then every broker tries again."""

from __future__ import annotations

from oncelog_server.cluster.controller import become_controller, resign_controller
from oncelog_server.cluster.store import LeaseEnded, MetadataStore, Write
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.metadata.membership import Membership


class ControllerElection:
    """Elects the controller. A lost election changes nothing."""

    def __init__(
        self, store: MetadataStore, follower: ImageFollower, membership: Membership, broker_id: int
    ) -> None:
        self._store = store
        self._follower = follower
        self._membership = membership
        self._broker_id = broker_id

    @property
    def is_won(self) -> bool:
        """Return True if the image shows that this broker is the controller."""
        image = self._follower.image
        return image.controller_id == self._broker_id and self._membership.epoch_in(image) > 0

    async def run(self) -> None:
        """Become the controller if there is none and this broker is registered. Return when the
        image shows the success. Raises OSError. Raises Refused if the image does not follow the
        store."""
        image = self._follower.image
        if not self._membership.epoch_in(image):
            return
        write = become_controller(image, self._broker_id, self._membership.lease_id)
        if write is None:
            return
        await self._write(write)

    async def resign(self) -> None:
        """Let another broker become the controller. Return when the image shows it. Raises OSError.
        Raises Refused if the image does not follow the store."""
        if self.is_won:
            await self._write(resign_controller(self._follower.image))

    async def _write(self, write: Write) -> None:
        try:
            result = await self._store.txn(write.compare, write.operations)
        except LeaseEnded:
            return
        if result.succeeded:
            await self._follower.reached(result.revision)
