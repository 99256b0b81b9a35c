"""The tables of the app "rental", in one place for Django; each lives with its package."""

from rental.catalog.models import Image, Offer, Quote
from rental.instances.models import Endpoint, Instance, Notice, Operation, Secret

__all__ = [
    "Endpoint",
    "Image",
    "Instance",
    "Notice",
    "Offer",
    "Operation",
    "Quote",
    "Secret",
]
