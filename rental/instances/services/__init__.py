"""
Commands on instances: create, stop, start, restart, release, rename.

Each is one transaction. Lock order: wallet, instance, request and allocation, node, run. A
command first levels the instance with what has happened meanwhile, so that it decides on facts.
"""

from rental.instances.services.commands import (
    release_instance,
    rename_instance,
    restart_instance,
    start_instance,
    stop_instance,
)
from rental.instances.services.create import create_instances

__all__ = [
    "create_instances",
    "release_instance",
    "rename_instance",
    "restart_instance",
    "start_instance",
    "stop_instance",
]
