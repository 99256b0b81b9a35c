"""How customers come in, and how their money does."""

from collections.abc import Iterator

from django.conf import settings
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from billing.models import Transfer
from rental.operate.setup.steps import State, Step, when
from rental.tenants.models import Tenant


def check_customers() -> Iterator[Step]:
    is_open = settings.SIGNUP_ENABLED
    yield Step(
        key="signup",
        title=_("Sign-up"),
        state=State.CHOICE,
        says=_("On: anybody can open an account.")
        if is_open
        else _("Off: you make tenants yourself, or customers are invited."),
        why=_("SIGNUP_ENABLED decides it, SIGNUP_TRIAL_CREDIT what a new tenant gets to try with."),
        url="" if is_open else reverse("admin:tenants_tenant_add"),
        label=_("Add a tenant"),
    )
    yield _messages()
    tenants = Tenant.objects.count()
    yield Step(
        key="tenant",
        title=_("A tenant is there"),
        state=when(tenants, State.CHOICE),
        says=ngettext("%(n)s tenant.", "%(n)s tenants.", tenants) % {"n": tenants},
        why=_("A tenant is the organisation that pays; people are members of it."),
        url=reverse("admin:tenants_tenant_changelist"),
        label=_("Tenants"),
    )
    credited = Transfer.objects.filter(code="credit").exists()
    yield Step(
        key="credit",
        title=_("Money reaches wallets"),
        state=when(credited, State.ADVISED),
        says=_("A wallet was credited.") if credited else _("No wallet was credited yet."),
        why=_(
            "Customers pay ahead. Today you take the money your way and credit "
            "the wallet, with a reason that is kept."
        ),
        url=reverse("operate:credit"),
        label=_("Credit a wallet"),
    )
    yield Step(
        key="payment",
        title=_("Payment by the customer"),
        state=State.LATER,
        says=_("No payment provider can be connected yet."),
        why=_("Cards, Alipay and WeChat Pay come later. Until then the line above is the way."),
    )
    yield _terms()


def _messages() -> Step:
    return Step(
        key="messages",
        title=_("E-mail and text messages"),
        state=State.LATER,
        says=_("Neither is sent yet: codes for sign-up and new passwords wait here for you."),
        why=_("Until then a member of staff reads a code in the admin and passes it on by phone."),
        url=_codes_url(),
        label=_("Codes to pass on"),
    )


def _codes_url() -> str:
    try:
        return reverse("admin:tenants_contactcode_changelist")
    except NoReverseMatch:
        return ""


def _terms() -> Step:
    address = settings.SIGNUP_TERMS_URL
    return Step(
        key="legal",
        title=_("Terms and privacy"),
        state=when(address, State.ADVISED),
        says=gettext("Sign-up asks to agree to version %(version)s of %(address)s.")
        % {"version": settings.SIGNUP_TERMS_VERSION, "address": address}
        if address
        else _("Sign-up asks nobody to agree to anything: SIGNUP_TERMS_URL is not set."),
        why=_(
            "Who agreed to which version is kept. Pages for terms, privacy and imprint on this "
            "site are not built yet: the address is one of yours."
        ),
    )
