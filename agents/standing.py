"""The standing orders of a node: the desired set that it obeyed last."""

import logging

from agents.keeper import Keeper
from agents.protocol import Desired, Order, ResidenceOrder

log = logging.getLogger("agents.standing")


class StandingOrders:
    def __init__(self, desired: Desired | None, *, node: str, keeper: Keeper) -> None:
        self._node = node
        self._keeper = keeper
        self.desired = desired

    @property
    def orders(self) -> list[Order]:
        return [] if self.desired is None else self.desired.orders

    @property
    def residences(self) -> list[ResidenceOrder]:
        return [] if self.desired is None else self.desired.residences

    def of_allocation(self, allocation: str) -> Order | None:
        return next((o for o in self.orders if o.allocation == allocation), None)

    def of_run(self, run: str) -> Order | None:
        return next((o for o in self.orders if o.run == run), None)

    def is_old(self, desired: Desired) -> bool:
        known = self.desired
        if known is None or (desired.control_epoch, desired.node_version) >= (
            known.control_epoch,
            known.node_version,
        ):
            return False
        log.warning("desired.old", extra={"node": self._node, "version": desired.node_version})
        return True

    def take(self, desired: Desired) -> bool:
        """Obey the set from now on. Return whether it says anything new."""
        if desired == self.desired:
            return False
        self.desired = desired
        self._keeper.keep_desired(desired)
        return True
