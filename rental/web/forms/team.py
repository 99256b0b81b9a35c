"""What the pages of a tenant's people, projects and settings take."""

import re
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from rental.tenants.models import Role
from rental.web.forms.joining import ContactField
from rental.web.roles import roles_to_give


class RoleField(forms.ChoiceField):
    """A role that a member in the role ``by`` may give."""

    def __init__(self, *, by: str, **kwargs: Any) -> None:
        choices = [(words.code, words.label) for words in roles_to_give(by)]
        super().__init__(**{"label": _("Role"), "choices": choices, **kwargs})

    def clean(self, value: Any) -> Role:
        return Role(super().clean(value))


class InviteForm(forms.Form):
    contact = ContactField()

    def __init__(self, *args: Any, by: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["role"] = RoleField(by=by, initial=Role.DEVELOPER)


class RoleForm(forms.Form):
    def __init__(self, *args: Any, by: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["role"] = RoleField(by=by)


class ProjectForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=80)


class NewProjectForm(ProjectForm):
    slug = forms.CharField(
        label=_("Short name"),
        max_length=40,
        required=False,
        help_text=_("For addresses and scripts; it stays. Left empty, one is made."),
    )

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"].strip()
        if slug and not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", slug):
            raise ValidationError(_("Use a–z, 0–9 and inner hyphens."), code="invalid")
        return slug


class SettingsForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120)
    time_zone = forms.ChoiceField(
        label=_("Time zone"),
        help_text=_(
            "Changes how times are shown. Months of the bill are cut the same for everybody."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zones = sorted(zone for zone in available_timezones() if "/" in zone) + ["UTC"]
        self.fields["time_zone"].choices = [(zone, zone) for zone in zones]  # type: ignore[attr-defined]
