"""Which board and which policy decide, by name. Pure."""

from collections.abc import Callable
from typing import Final, Literal

from scheduler.core import fast
from scheduler.core.board import Board
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import Inventory
from scheduler.core.policies import Policy
from scheduler.core.policies.best_fit import BestFit
from scheduler.core.policies.fgd import Fgd
from scheduler.core.policies.fgdx import FILLING_UP, Fgdx
from scheduler.core.policies.first_fit import FirstFit

POLICIES: Final[dict[str, Callable[[Inventory, Forecast], Policy]]] = {
    "first_fit": lambda room, forecast: FirstFit(),
    "best_fit": lambda room, forecast: BestFit(room),
    "fgd": Fgd,
    "fgdx": Fgdx,
    "fgdx_filling": lambda room, forecast: Fgdx(room, forecast, FILLING_UP),
}
Way = Literal["best", "numpy", "compiled"]


def make_policy(name: str, room: Inventory, forecast: Forecast) -> Policy:
    """Return the policy of this name. :raises KeyError: if there is none"""
    return POLICIES[name](room, forecast)


def make_board(room: Inventory, policy: Policy, way: Way = "best") -> Board:
    """Return a board that decides under this policy: compiled where numba is installed."""
    if way == "numpy" or (way == "best" and not fast.IS_HERE):
        return Board(room, policy)
    from scheduler.core.fast.board import FastBoard

    return FastBoard(room, policy)
