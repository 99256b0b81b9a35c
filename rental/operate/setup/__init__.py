"""
What a new operator has to do before the first customer, and how far he is.

Every line is derived from rows and settings when the page is opened; nothing is ticked by hand,
so that a line which breaks later is open again.
"""

from datetime import datetime

from django.utils.translation import gettext_lazy as _

from rental.operate.setup.customers import check_customers
from rental.operate.setup.machines import check_machines
from rental.operate.setup.safety import check_fixed, check_safety
from rental.operate.setup.sale import check_sale
from rental.operate.setup.steps import Group, Setup, State, Step
from rental.tenants.models import User

__all__ = ["Group", "Setup", "State", "Step", "look_at_setup"]


def look_at_setup(*, user: User, now: datetime) -> Setup:
    """Return every line, as ``user`` should see it. A fixed number of queries."""
    return Setup(
        groups=[
            Group(title=_("Machines"), steps=[*check_machines(now=now)]),
            Group(title=_("What is on sale"), steps=[*check_sale(now=now)]),
            Group(title=_("Customers and money"), steps=[*check_customers()]),
            Group(title=_("Safety"), steps=[*check_safety(user)]),
            Group(title=_("Fixed from the first day"), steps=[*check_fixed()]),
        ]
    )
