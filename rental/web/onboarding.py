"""
The first steps of somebody new, as a list that goes away by itself or by a click. Each step is
read from rows: nothing is ticked by hand. One query, whatever the tenant has.
"""

from dataclasses import dataclass
from typing import Final

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from billing.models import Wallet
from rental.instances.models import Instance
from rental.tenants.models import Membership, SshKey
from rental.web.visit import Visit


@dataclass(frozen=True)
class Step:
    """``path``: where it is done, below the tenant's address or, with a slash, from the root."""

    code: str
    title: str | Promise
    hint: str | Promise
    path: str
    verb: str | None = None


STEPS: Final = (
    Step(
        "contact",
        _("Confirm your e-mail or phone"),
        _("So that you can get back in when the password is lost."),
        "/me",
    ),
    Step(
        "credit",
        _("Have credit"),
        _("An instance starts when the balance covers half an hour of it."),
        "billing",
        "billing:read",
    ),
    Step(
        "access",
        _("Add an SSH key, or choose a password at launch"),
        _("Either opens your instance; a key is safer and saves typing."),
        "keys",
        "ssh_keys:write",
    ),
    Step(
        "launch",
        _("Start the first instance"),
        _("The price stands beside the button; billing ends when you stop it."),
        "launch",
        "instances:write",
    ),
    Step(
        "factor",
        _("Protect the account with a second factor"),
        _("A code from your phone at each sign-in."),
        "/me",
    ),
)


@dataclass(frozen=True)
class StepShown:
    code: str
    title: str | Promise
    hint: str | Promise
    url: str
    is_done: bool


@dataclass(frozen=True)
class Checklist:
    """What ``web/joining/_checklist.html`` shows."""

    steps: list[StepShown]
    done: int

    @property
    def next(self) -> StepShown:
        return next(step for step in self.steps if not step.is_done)


def checklist_of(visit: Visit) -> Checklist | None:
    """
    Return the first steps that the member may take; None once they are done or put away.

    One query, none after they were put away.
    """
    if visit.membership.onboarded_at is not None:
        return None
    done = _facts(visit)
    steps = [
        StepShown(
            code=step.code,
            title=step.title,
            hint=step.hint,
            url=step.path if step.path.startswith("/") else f"{visit.home}{step.path}",
            is_done=done[step.code],
        )
        for step in STEPS
        if step.code in done and (step.verb is None or visit.may(step.verb))
    ]
    count = sum(step.is_done for step in steps)
    return Checklist(steps, count) if count < len(steps) else None


def _facts(visit: Visit) -> dict[str, bool]:
    tenant_id, user = visit.tenant.id, visit.user
    instances = Instance.objects.of(tenant_id)
    keys = SshKey.objects.of(tenant_id).live()
    row = (
        Membership.objects.filter(pk=visit.membership.pk)
        .annotate(
            has_credit=Exists(Wallet.objects.of(tenant_id).filter(posted__gt=0)),
            has_key=Exists(keys),
            has_password=Exists(instances.filter(password_login=True)),
            has_launched=Exists(instances),
            has_factor=Exists(Authenticator.objects.filter(user=OuterRef("user"))),
        )
        .values_list("has_credit", "has_key", "has_password", "has_launched", "has_factor")
        .get()
    )
    has_credit, has_key, has_password, has_launched, has_factor = row
    done = {
        "credit": has_credit or has_launched,
        "access": has_key or has_password,
        "launch": has_launched,
        "factor": has_factor,
    }
    if settings.SIGNUP_VERIFICATION == "code":  # else nobody asks, and the step is left out
        done["contact"] = bool(user.email_verified_at or user.phone_verified_at)
    return done
