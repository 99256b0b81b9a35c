"""What the pages of a person take."""

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from rental.web.forms.joining import ContactField


class NameForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=80, required=False)
    language = forms.ChoiceField(label=_("Language"), choices=settings.LANGUAGES)


class NewContactForm(forms.Form):
    """A new way to be reached; the password says that it is really he."""

    contact = ContactField()
    password = forms.CharField(label=_("Your password"), max_length=128, strip=False)
