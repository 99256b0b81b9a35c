"""What the pages of joining take."""

from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from rental.tenants.contacts import Contact, parse_contact
from rental.tenants.errors import MalformedContact
from rental.tenants.models import User


class ContactField(forms.CharField):
    """An e-mail address or a mobile number in one field; cleans to a ``Contact``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": 254, "label": _("Mobile phone or e-mail"), **kwargs})

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        try:
            return parse_contact(text)
        except MalformedContact:
            raise ValidationError(
                _("Enter a mobile phone number or an e-mail address."), code="invalid"
            ) from None


def check_password(password: str, *, contact: Contact | None, name: str = "") -> None:
    """:raises ValidationError: if it is too short, too common or too close to who has it"""
    person = User(name=name)
    if contact is not None:
        setattr(person, contact.kind, contact.value)
    validate_password(password, person)


class ContactForm(forms.Form):
    contact = ContactField()


class CodeForm(forms.Form):
    code = forms.CharField(label=_("Verification code"), max_length=12)


class NewPasswordForm(CodeForm):
    password = forms.CharField(label=_("New password"), max_length=128, strip=False)

    def __init__(self, *args: Any, contact: Contact, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.contact = contact

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        check_password(password, contact=self.contact)
        return password


class JoinForm(forms.Form):
    """
    A password, and agreement to the terms where there are any. The contact is known already.

    :param terms: the address of the terms; "" where the operator has none
    """

    password = forms.CharField(label=_("Password"), max_length=128, strip=False)
    agrees = forms.BooleanField(
        label=_("I agree to the terms"),
        error_messages={"required": _("Without agreement to the terms there is no account.")},
    )

    def __init__(
        self, *args: Any, terms: str, contact: Contact | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.known_contact = contact
        if not terms:
            del self.fields["agrees"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if password := cleaned.get("password"):
            contact = cleaned.get("contact") or self.known_contact
            try:
                check_password(password, contact=contact, name=cleaned.get("organization", ""))
            except ValidationError as error:
                self.add_error("password", error)
        return cleaned


class SignUpForm(JoinForm):
    field_order = ("contact", "password", "organization", "agrees")
    contact = ContactField()
    organization = forms.CharField(label=_("Organization"), max_length=80, required=False)


class TenantForm(forms.Form):
    """A further tenant of somebody who is signed in."""

    name = forms.CharField(label=_("Name of the organization"), max_length=80)
