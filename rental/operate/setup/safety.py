"""Second factor, keys, HTTPS, backup; and what is fixed from the first day."""

from collections.abc import Iterator

from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from rental.operate.setup.steps import State, Step, when
from rental.tenants.models import User


def check_safety(user: User) -> Iterator[Step]:
    has_second = is_mfa_enabled(user)
    yield Step(
        key="mfa",
        title=_("Your second factor"),
        state=when(has_second, State.ADVISED),
        says=_("On for %(email)s.") % {"email": user}
        if has_second
        else _("Off for %(email)s.") % {"email": user},
        why=_("Staff can credit wallets and end instances: a password alone is too little.")
        if settings.STAFF_MFA_REQUIRED
        else _("STAFF_MFA_REQUIRED is off: staff with a password alone can credit wallets."),
        url=reverse("mfa_index"),
        label=_("Security of my account"),
    )
    yield Step(
        key="secrets",
        title=_("SECRETS_KEY is set"),
        state=when(settings.SECRETS_KEY),
        says=_("Set. Keep a copy apart from the database.")
        if settings.SECRETS_KEY
        else _("Not set: customers can keep no secrets and no passwords."),
        why=_("It seals what customers keep. Lost, all of it is unreadable."),
        command="" if settings.SECRETS_KEY else "openssl rand -base64 32",
    )
    yield Step(
        key="key",
        title=_("SECRET_KEY is set"),
        state=when(settings.SECRET_KEY_IS_SET),
        says=_("Set.") if settings.SECRET_KEY_IS_SET else _("Not set: every process made its own."),
        why=_("It signs sessions. Without one of your own, each restart signs everybody out."),
        command="" if settings.SECRET_KEY_IS_SET else "openssl rand -base64 48",
    )
    yield Step(
        key="debug",
        title=_("Debug pages are off"),
        state=when(not settings.DEBUG),
        says=_("Off.") if not settings.DEBUG else _("DEBUG is on: errors show code and settings."),
        why=_("Strangers must not see how an error came about."),
    )
    yield Step(
        key="https",
        title=_("HTTPS"),
        state=when(settings.HTTPS, State.ADVISED),
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
            "PostgreSQL holds everything: wallets, keys, who is on which card. "
            "SECRETS_KEY is not in it."
        ),
        command='pg_dump --format=custom --file="tessera-$(date +%F).dump" "$DATABASE_OWNER_URL"',
    )


def check_fixed() -> Iterator[Step]:
    yield Step(
        key="zone",
        title=_("Time zone of the months"),
        state=State.DONE,
        says=settings.BILLING_TIME_ZONE,
        why=_(
            "Months and statements are cut here, for everybody. Changing it later"
            " moves charges between months."
        ),
    )
    yield Step(
        key="currency",
        title=_("Currency"),
        state=State.DONE,
        says=settings.BILLING_CURRENCY,
        why=_("One currency for the whole deployment; prices and wallets are in it."),
    )
