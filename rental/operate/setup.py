"""
What a new operator has to do before the first customer, and how far he is.

Every line is derived from rows and settings when the page is opened; nothing is ticked by hand,
so that a line which breaks later is open again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from billing.models import PriceVersion, Transfer
from rental.catalog.models import Image, Offer
from rental.records.models import PeriodicRun
from rental.tenants.models import Tenant, User
from scheduler.models import Gpu, GpuHealth, LivenessStatus, Node
from scheduler.services.liveness import listening_since

# Settle runs once an hour; a worker that missed one is not working.
SETTLES_EVERY: Final = timedelta(minutes=75)


class State(StrEnum):
    DONE = "done"
    NEEDED = "needed"  # nothing can be sold, or something is unsafe, without it
    ADVISED = "advised"
    CHOICE = "choice"  # the operator's to decide; both ways are right
    LATER = "later"  # Tessera cannot do it yet


STATE_WORDS: Final[dict[State, Any]] = {
    State.DONE: _("Done"),
    State.NEEDED: _("Needed"),
    State.ADVISED: _("Advised"),
    State.CHOICE: _("Your choice"),
    State.LATER: _("Not built yet"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One line. ``says``: what is found; ``why``: why it matters. ``url`` with ``label`` is a page
    that does it, ``command`` what to type in a shell; ``enrols``: the page offers a token.
    """

    key: str
    title: Any
    state: State
    says: Any
    why: Any
    url: str = ""
    label: Any = ""
    command: str = ""
    enrols: bool = False

    @property
    def word(self) -> Any:
        return STATE_WORDS[self.state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    title: Any
    steps: list[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    groups: list[Group]

    @property
    def steps(self) -> list[Step]:
        return [step for group in self.groups for step in group.steps]

    def count(self, state: State) -> int:
        return sum(1 for step in self.steps if step.state is state)

    @property
    def needed(self) -> int:
        return self.count(State.NEEDED)

    @property
    def advised(self) -> int:
        return self.count(State.ADVISED)

    @property
    def done(self) -> int:
        return self.count(State.DONE)


def look_at_setup(*, user: User, now: datetime) -> Setup:
    """Return every line, as ``user`` should see it. A fixed number of queries."""
    return Setup(
        groups=[
            Group(title=_("Machines"), steps=[*_machines(now=now)]),
            Group(title=_("What is on sale"), steps=[*_sale(now=now)]),
            Group(title=_("Customers and money"), steps=[*_customers()]),
            Group(title=_("Safety"), steps=[*_safety(user)]),
            Group(title=_("Fixed from the first day"), steps=[*_fixed()]),
        ]
    )


def _when(condition: object, otherwise: State = State.NEEDED) -> State:
    return State.DONE if condition else otherwise


# --- machines


def _machines(*, now: datetime) -> Iterator[Step]:
    listening = listening_since(now=now)
    yield Step(
        key="gateway",
        title=_("The gateway listens"),
        state=_when(listening),
        says=_("Listening without a break since %(time)s.") % {"time": _moment(listening)}
        if listening
        else _("No gateway has written that it listens."),
        why=_("Nodes dial the gateway. Without it none is heard, and nothing can be placed."),
        command="" if listening else "manage.py up",
    )
    nodes = Node.objects.aggregate(
        known=Count("pk"), live=Count("pk", filter=Q(liveness__status=LivenessStatus.LIVE))
    )
    yield Step(
        key="node",
        title=_("A node is enrolled and live"),
        state=_when(nodes["live"]),
        says=gettext("%(live)s of %(known)s enrolled nodes are live.") % nodes
        if nodes["known"]
        else _("No node is enrolled."),
        why=_("A node brings the GPUs. One command on the machine enrols it with a token."),
        url=reverse("operate:fleet") if nodes["known"] else "",
        label=_("Fleet"),
        enrols=True,
    )
    yield _gpus()
    yield _background(now=now)


def _moment(at: datetime) -> str:
    from django.utils import formats, timezone

    return formats.date_format(timezone.localtime(at), "Y-m-d H:i")


def _gpus() -> Step:
    found = Gpu.objects.aggregate(
        well=Count("pk", filter=Q(health=GpuHealth.HEALTHY)),
        sick=Count("pk", filter=~Q(health=GpuHealth.HEALTHY)),
        models=Count("model", distinct=True),
    )
    says: Any = _("No node has reported a GPU.")
    if found["well"] or found["sick"]:
        says = gettext("%(well)s healthy GPUs of %(models)s models; %(sick)s with a fault.") % found
    return Step(
        key="gpus",
        title=_("GPUs are reported"),
        state=_when(found["well"]) if not found["sick"] else State.ADVISED,
        says=says,
        why=_("Only a healthy GPU is sold. A fault shows on the fleet page with its reason."),
        url=reverse("operate:fleet") + ("?state=trouble" if found["sick"] else ""),
        label=_("Fleet"),
    )


def _background(*, now: datetime) -> Step:
    last = PeriodicRun.objects.order_by("-taken_at").values_list("taken_at", flat=True).first()
    is_fresh = last is not None and now - last < SETTLES_EVERY
    return Step(
        key="worker",
        title=_("Work in the background is done"),
        state=_when(is_fresh, State.ADVISED),
        says=_("Last settled at %(time)s.") % {"time": _moment(last)}
        if last
        else _("Nothing was settled yet: that happens 7 minutes after each full hour."),
        why=_(
            "Workers place, stop, charge and warn. Without them orders wait and nothing is charged."
        ),
    )


# --- what is on sale


def _sale(*, now: datetime) -> Iterator[Step]:
    offers = Offer.objects.filter(active=True)
    standing = PriceVersion.objects.filter(during__contains=now).values_list("price_key", flat=True)
    priced = {key.split("/")[2] for key in standing if key.startswith("compute/")}
    codes = set(offers.values_list("code", flat=True))
    made_up = offers.filter(is_demo_price=True).count()
    yield Step(
        key="prices",
        title=_("A price list is published"),
        state=State.NEEDED if not codes & priced else _when(not made_up, State.ADVISED),
        says=_prices_in_words(len(codes), len(codes & priced), made_up),
        why=_(
            "Customers see these prices without signing in, and pay them. A rise is announced 24 hours ahead."
        ),
        url=reverse("operate:prices"),
        label=_("Prices"),
        command="" if codes else "manage.py seed_catalog",
    )
    yield _offers_for_cards()
    images = Image.objects.filter(active=True).count()
    yield Step(
        key="image",
        title=_("Images are offered"),
        state=_when(images),
        says=ngettext("%(n)s image is offered.", "%(n)s images are offered.", images)
        % {"n": images},
        why=_("An instance starts from an image: Ubuntu, CUDA, a framework."),
        url=reverse("admin:rental_image_changelist"),
        label=_("Images"),
        command="" if images else "manage.py seed_catalog",
    )


def _prices_in_words(offers: int, priced: int, made_up: int) -> str:
    text = gettext("%(priced)s of %(offers)s offers have a price.") % {
        "priced": priced,
        "offers": offers,
    }
    if made_up:
        text += " " + gettext("%(n)s prices are made up for the demo: set your own.") % {
            "n": made_up
        }
    return text


def _offers_for_cards() -> Step:
    """Cards that a node has reported and that no offer sells earn nothing, and nobody notices."""
    sold = Offer.objects.filter(
        active=True,
        gpu_model_name=OuterRef("model__name"),
        gpu_memory_mib=OuterRef("model__memory_mib"),
    )
    idle = sorted(
        {
            f"{name} {memory // 1024} GiB"
            for name, memory in Gpu.objects.exclude(health=GpuHealth.MISSING)
            .filter(~Exists(sold))
            .values_list("model__name", "model__memory_mib")
            .distinct()
        }
    )
    return Step(
        key="offers",
        title=_("Every GPU model has an offer"),
        state=_when(not idle, State.ADVISED),
        says=gettext("Reported, and sold by no offer: %(models)s.") % {"models": ", ".join(idle)}
        if idle
        else _("Every reported model is on sale."),
        why=_("A card that no offer names is never placed on."),
        url=reverse("admin:rental_offer_changelist"),
        label=_("Offers"),
    )


# --- customers and money


def _customers() -> Iterator[Step]:
    is_open = bool(getattr(settings, "SIGNUP_ENABLED", False))
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
        state=_when(tenants, State.CHOICE),
        says=ngettext("%(n)s tenant.", "%(n)s tenants.", tenants) % {"n": tenants},
        why=_("A tenant is the organisation that pays; people are members of it."),
        url=reverse("admin:tenants_tenant_changelist"),
        label=_("Tenants"),
    )
    credited = Transfer.objects.filter(code="credit").exists()
    yield Step(
        key="credit",
        title=_("Money reaches wallets"),
        state=_when(credited, State.ADVISED),
        says=_("You have credited a wallet.") if credited else _("No wallet was credited yet."),
        why=_(
            "Customers pay ahead. Today you take the money your way and credit the wallet, with a reason that is kept."
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
    yield Step(
        key="legal",
        title=_("Terms, privacy, imprint"),
        state=State.LATER,
        says=_("Legal documents cannot be published here yet."),
        why=_(
            "They will be pages of your site that a customer agrees to at sign-up. Show yours elsewhere until then."
        ),
    )


def _messages() -> Step:
    has_mail = _has_mail()
    return Step(
        key="messages",
        title=_("E-mail and text messages"),
        state=_when(has_mail, State.CHOICE),
        says=_("E-mail is sent. Text messages are not built yet.")
        if has_mail
        else _("Neither is set up: codes for sign-up and new passwords wait here for you."),
        why=_(
            "Without them a member of staff reads a code in the admin and passes it on by phone."
        ),
        url="" if has_mail else _codes_url(),
        label=_("Codes to pass on"),
    )


def _has_mail() -> bool:
    """Say whether mail leaves the machine: a host was named, and the backend is one that sends."""
    return bool(getattr(settings, "EMAIL_HOST", "") not in ("", "localhost")) and str(
        settings.EMAIL_BACKEND
    ).endswith("smtp.EmailBackend")


def _codes_url() -> str:
    return reverse("admin:tenants_contactcode_changelist")


# --- safety


def _safety(user: User) -> Iterator[Step]:
    has_second = is_mfa_enabled(user)
    yield Step(
        key="mfa",
        title=_("Your second factor"),
        state=_when(has_second, State.ADVISED),
        says=_("On for %(email)s.") % {"email": user}
        if has_second
        else _("Off for %(email)s.") % {"email": user},
        why=_(
            "Staff can credit wallets and end instances. A password alone is too little for that."
        ),
        url=reverse("mfa_index"),
        label=_("Security of my account"),
    )
    yield Step(
        key="secrets",
        title=_("SECRETS_KEY is set"),
        state=_when(settings.SECRETS_KEY),
        says=_("Set. Keep a copy apart from the database.")
        if settings.SECRETS_KEY
        else _("Not set: customers can keep no secrets and no passwords."),
        why=_("It seals what customers keep. Lost, all of it is unreadable."),
        command="" if settings.SECRETS_KEY else "openssl rand -base64 32",
    )
    yield Step(
        key="key",
        title=_("SECRET_KEY is set"),
        state=_when(settings.SECRET_KEY_IS_SET),
        says=_("Set.") if settings.SECRET_KEY_IS_SET else _("Not set: every process made its own."),
        why=_("It signs sessions. Without one of your own, each restart signs everybody out."),
        command="" if settings.SECRET_KEY_IS_SET else "openssl rand -base64 48",
    )
    yield Step(
        key="debug",
        title=_("Debug pages are off"),
        state=_when(not settings.DEBUG),
        says=_("Off.") if not settings.DEBUG else _("DEBUG is on: errors show code and settings."),
        why=_("Strangers must not see how an error came about."),
    )
    yield Step(
        key="https",
        title=_("HTTPS"),
        state=_when(settings.HTTPS, State.ADVISED),
        says=_("On: cookies travel over TLS only.")
        if settings.HTTPS
        else _("Off. Right for a look on your own machine only."),
        why=_("Put a proxy with a certificate in front, then set HTTPS=true and ALLOWED_HOSTS."),
    )
    yield Step(
        key="backup",
        title=_("Backup"),
        state=State.ADVISED,
        says=_(
            "No backup is known: Tessera makes none yet. Run this every night, keep it elsewhere."
        ),
        why=_(
            "PostgreSQL holds everything: wallets, keys, who is on which card. SECRETS_KEY is not in it."
        ),
        command='pg_dump --format=custom --file="tessera-$(date +%F).dump" "$DATABASE_OWNER_URL"',
    )


# --- fixed


def _fixed() -> Iterator[Step]:
    yield Step(
        key="zone",
        title=_("Time zone of the months"),
        state=State.DONE,
        says=settings.BILLING_TIME_ZONE,
        why=_(
            "Months and statements are cut here, for everybody. Changing it later moves charges between months."
        ),
    )
    yield Step(
        key="currency",
        title=_("Currency"),
        state=State.DONE,
        says=settings.BILLING_CURRENCY,
        why=_("One currency for the whole deployment; prices and wallets are in it."),
    )
