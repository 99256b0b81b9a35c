"""The tables of the app "rental", in one place for Django; each lives with its package."""

from rental.catalog.models import Image, Offer, Quote
from rental.instances.models import (
    Endpoint,
    Instance,
    InstancePassword,
    Notice,
    Operation,
    Secret,
)

__all__ = [
    "Endpoint",
    "Image",
    "Instance",
    "InstancePassword",
    "Notice",
    "Offer",
    "Operation",
    "Quote",
    "Secret",
]
