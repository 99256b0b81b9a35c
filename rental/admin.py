"""The admin pages of the app "rental", in one place for Django; each lives with its package."""

from rental.catalog.admin import ImageAdmin, OfferAdmin, QuoteAdmin
from rental.instances.admin import InstanceAdmin, NoticeAdmin, OperationAdmin, SecretAdmin

__all__ = [
    "ImageAdmin",
    "InstanceAdmin",
    "NoticeAdmin",
    "OfferAdmin",
    "OperationAdmin",
    "QuoteAdmin",
    "SecretAdmin",
]
