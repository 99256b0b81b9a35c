"""
Commands on instances: create, stop, start, restart, release; and their settings.

Each is one transaction. Lock order: wallet, instance, request and allocation, node, run. A
command first levels the instance with what has happened meanwhile, so that it decides on facts.
"""

from rental.instances.services.commands import (
    release_instance,
    restart_instance,
    start_instance,
    stop_instance,
)
from rental.instances.services.create import create_instances
from rental.instances.services.settings import (
    Changes,
    rename_instance,
    reveal_password,
    update_instance,
)

__all__ = [
    "Changes",
    "create_instances",
    "release_instance",
    "rename_instance",
    "restart_instance",
    "reveal_password",
    "start_instance",
    "stop_instance",
    "update_instance",
]
