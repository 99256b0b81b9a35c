"""What the pages of keys take: reads what is typed. What is right, the services decide."""

from datetime import datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from django import forms
from django.utils.translation import gettext_lazy as _

from rental.instances.secrets import MOST_VALUE
from rental.tenants.models import ApiKey
from rental.tenants.permissions import NOUNS

DAYS: Final = {"30": 30, "90": 90, "365": 365}


class SshKeyForm(forms.Form):
    public_key = forms.CharField(max_length=16384, widget=forms.Textarea)
    name = forms.CharField(max_length=80, required=False)


class ApiKeyForm(forms.Form):
    """``access``: a preset, or ``custom`` with a choice for each noun (scope_instances: write)."""

    name = forms.CharField(max_length=80)
    kind = forms.ChoiceField(choices=ApiKey.Kind.choices, initial=ApiKey.Kind.PERSON)
    access = forms.ChoiceField(
        choices=[("instances", ""), ("read", ""), ("all", ""), ("custom", "")],
        initial="instances",
    )
    expires = forms.ChoiceField(
        choices=[(days, "") for days in DAYS] + [("date", ""), ("never", "")], initial="90"
    )
    expires_on = forms.DateField(required=False)

    def __init__(self, *args: Any, zone: ZoneInfo, now: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.zone, self.now = zone, now

    @property
    def chosen(self) -> dict[str, str]:
        """Return what was chosen for each noun: read, write or nothing."""
        found = {noun: self.data.get(f"scope_{noun}", "") for noun in NOUNS}
        return {noun: what for noun, what in found.items() if what in ("read", "write")}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("access") == "custom" and not self.chosen:
            self.add_error("access", _("Choose at least one thing that the key may do."))
        if cleaned.get("expires") == "date" and not cleaned.get("expires_on"):
            self.add_error("expires_on", _("Choose the day on which the key ends."))
        if cleaned.get("kind") == ApiKey.Kind.AGENT and cleaned.get("expires") == "never":
            self.add_error("expires", _("The key of an AI agent must have an end."))
        return cleaned

    @property
    def expires_at(self) -> datetime | None:
        """The end of the chosen day on the tenant's clock."""
        choice = self.cleaned_data["expires"]
        if choice == "never":
            return None
        if choice == "date":
            day = self.cleaned_data["expires_on"] + timedelta(days=1)
            return datetime.combine(day, time(), tzinfo=self.zone)
        return self.now + timedelta(days=DAYS[choice])


class SecretForm(forms.Form):
    name = forms.CharField(max_length=128)
    value = forms.CharField(
        max_length=MOST_VALUE, required=False, strip=False, widget=forms.Textarea
    )
