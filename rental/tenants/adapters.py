"""What allauth asks us: how people are reached, and what one wrong password counts against."""

from datetime import datetime, timedelta
from typing import Any

from allauth.account import app_settings
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.fields import PhoneField
from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa.models import Authenticator
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from rental.tenants.contacts import parse_contact, parse_phone
from rental.tenants.errors import MalformedContact
from rental.tenants.models import User
from rental.tenants.services.sessions import end_other_sessions


class AnyPhoneField(PhoneField):  # type: ignore[misc]  # allauth is untyped
    """A number as people type it: with spaces, without the country."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"validators": [], **kwargs})

    def clean(self, value: str) -> str:
        try:
            return parse_phone(value) if value else super().clean(value)
        except MalformedContact:
            raise ValidationError(_("Enter a mobile phone number."), code="invalid_phone") from None


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """
    Log in by e-mail address or phone number and password.

    Signing up, codes and new passwords are pages of ours (rental/web/pages/joining.py); allauth
    keeps log-in, log-out, the change of a password and second factors.
    """

    error_messages = DefaultAccountAdapter.error_messages | {
        # One text for every kind of login: which half is wrong, and whether there is such an
        # account, is nobody's business.
        f"{kind}_password_mismatch": _("There is no such account, or the password is wrong.")
        for kind in ("email", "phone", "username")
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Allauth's own form stays closed: it knows neither tenants nor trial credit."""
        return False

    def populate_username(self, request: HttpRequest, user: Any) -> None:
        """There are no user names."""

    # --- phone numbers

    def phone_form_field(self, **kwargs: Any) -> AnyPhoneField:
        return AnyPhoneField(**kwargs)

    def get_user_by_phone(self, phone: str) -> User | None:
        try:
            return User.objects.filter(phone=parse_phone(phone)).first()
        except MalformedContact:
            return None

    def get_phone(self, user: User) -> tuple[str, bool] | None:
        if user.phone is None:
            return None
        return user.phone, user.phone_verified_at is not None

    def set_phone(self, user: User, phone: str, verified: bool) -> None:
        raise NotImplementedError("rental.tenants.services.set_contact changes numbers")

    def set_phone_verified(self, user: User, phone: str) -> None:
        raise NotImplementedError("rental.tenants.services.set_contact changes numbers")

    def send_verification_code_sms(self, user: User, phone: str, code: str, **kwargs: Any) -> None:
        raise NotImplementedError("codes are made by rental.tenants.services.make_code")

    # --- passwords

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """
        Return whose failures are counted together. Allauth knows addresses only: all numbers
        would share one key, and five wrong words would lock out everybody who logs in by phone.
        """
        typed = credentials.get("email") or credentials.get("phone") or ""
        try:
            typed = parse_contact(typed).value
        except MalformedContact:
            typed = typed.strip().lower()
        return f"login:{typed}"

    def set_password(self, user: User, password: str) -> None:
        """Other browsers fall out at once, and their sockets with them."""
        super().set_password(user, password)
        end_other_sessions(user, keep=self.request.session.session_key)

    def reauthenticate(self, user: User, password: str) -> bool:
        """Allauth looks for a confirmed EmailAddress row; our users have none."""
        credentials = {"email": user.email} if user.email else {"phone": user.phone}
        found = self.authenticate(self.request, password=password, **credentials)
        return found is not None and found.pk == user.pk

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        """
        Who has just signed in by password sets up his first factor, and sees its recovery codes,
        without typing it again: staff are led there from the sign-in. Whatever concerns a factor
        that was there before asks once more.
        """
        since = timezone.now() - timedelta(seconds=app_settings.REAUTHENTICATION_TIMEOUT)
        if app == "allauth.mfa" and self._signed_in_after(since) and not self._had_factor(since):
            return False
        return bool(super().is_reauthentication_required(app=app, **kwargs))

    def _signed_in_after(self, moment: datetime) -> bool:
        records = get_authentication_records(self.request, self.request.user)
        oldest = moment.timestamp()
        return any(one["method"] == "password" and one["at"] > oldest for one in records)

    def _had_factor(self, moment: datetime) -> bool:
        factors = Authenticator.objects.filter(user=self.request.user, created_at__lt=moment)
        return bool(factors.exists())
