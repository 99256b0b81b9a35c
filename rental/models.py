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
from rental.instances.samples.models import InstanceSampleMinute

__all__ = [
    "Endpoint",
    "Image",
    "Instance",
    "InstancePassword",
    "InstanceSampleMinute",
    "Notice",
    "Offer",
    "Operation",
    "Quote",
    "Secret",
]
