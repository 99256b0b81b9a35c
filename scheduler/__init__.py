"""Which slice runs where: the inventory of nodes, what is asked of it, and what it holds."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler.services.observe import Observed, observe

__all__ = ["Observed", "observe"]


def __getattr__(name: str) -> Any:
    # Django imports this package before it has loaded models, which observe needs.
    if name in __all__:
        from scheduler.services import observe as module

        return getattr(module, name)
    raise AttributeError(name)
