"""What the launch page is asked: an order as a person types it. No rules of sale."""

import shlex
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from rental.catalog.services import MOST_INSTANCES
from rental.instances.orders import NAME_LENGTH
from rental.records import ids

NEVER, AFTER, AT = "never", "after", "at"
SECONDS_PER_HOUR = 3600
# An estimate is for these fields; one that answers for other values is never shown as current.
PRICED = ("offer", "image", "count", "stop", "stop_after", "stop_at")


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is wanted, as ``create_instances`` takes it. ``new_key``: pasted, not kept yet."""

    offer: str
    image: str
    count: int = 1
    name: str | None = None
    project_id: uuid.UUID | None = None
    ssh_key_ids: tuple[uuid.UUID, ...] = ()
    new_key: str = ""
    password_login: bool = False
    auto_stop_at: datetime | None = None
    max_duration_s: int | None = None
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


class LaunchForm(forms.Form):
    """The fields of an order. Those that name rows take the choices that the page offers."""

    offer = forms.CharField(max_length=60)
    image = forms.CharField(max_length=80)
    count = forms.IntegerField(min_value=1, max_value=MOST_INSTANCES)
    name = forms.CharField(max_length=NAME_LENGTH, required=False)
    project = forms.ChoiceField(required=False)
    ssh_keys = forms.MultipleChoiceField(required=False)
    new_key = forms.CharField(max_length=20_000, required=False)
    password_login = forms.BooleanField(required=False)
    stop = forms.ChoiceField(
        choices=[(NEVER, _("never")), (AFTER, _("after")), (AT, _("at"))], required=False
    )
    stop_after = forms.DecimalField(
        min_value=Decimal("0.1"), max_value=8784, decimal_places=2, required=False
    )
    stop_at = forms.DateTimeField(required=False)  # in the tenant's time zone
    command = forms.CharField(max_length=20_000, required=False)
    env = forms.CharField(max_length=20_000, required=False, strip=False)
    secrets = forms.MultipleChoiceField(required=False)

    def __init__(
        self,
        *args: Any,
        projects: Sequence[str] = (),
        ssh_keys: Sequence[str] = (),
        secrets: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        for name, choices in (("project", projects), ("ssh_keys", ssh_keys), ("secrets", secrets)):
            self.fields[name].choices = [(one, one) for one in choices]  # type: ignore[attr-defined]

    # --- what the estimate is for

    @property
    def stands_for(self) -> str:
        """Return the priced fields as they are shown, one a line: launch.js writes the same."""
        return "\n".join(str(self[name].value() or "") for name in PRICED)

    # --- what cannot be read

    def clean_command(self) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(self.cleaned_data["command"]))
        except ValueError:
            raise forms.ValidationError(_("A quotation mark is not closed.")) from None

    def clean_env(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.cleaned_data["env"].splitlines():
            if not line.strip():
                continue
            name, is_there, value = line.partition("=")
            if not is_there:
                raise forms.ValidationError(_("Write one NAME=value a line."))
            found[name.strip()] = value
        return found

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        for stop, name in ((AFTER, "stop_after"), (AT, "stop_at")):
            if cleaned.get("stop") == stop and not cleaned.get(name) and name not in self.errors:
                self.add_error(name, _("Say when, or choose not to stop it automatically."))
        return cleaned

    def order(self) -> Order:
        """Return what could be read; whole if the form is valid."""
        read = self.cleaned_data
        project = read.get("project")
        hours = read.get("stop_after") if read.get("stop") == AFTER else None
        return Order(
            offer=read.get("offer", ""),
            image=read.get("image", ""),
            count=read.get("count", 1),
            name=read.get("name") or None,
            project_id=ids.from_text("prj", project) if project else None,
            ssh_key_ids=tuple(ids.from_text("ssh", one) for one in read.get("ssh_keys", ())),
            new_key=read.get("new_key", ""),
            password_login=read.get("password_login", False),
            auto_stop_at=read.get("stop_at") if read.get("stop") == AT else None,
            max_duration_s=int(hours * SECONDS_PER_HOUR) if hours else None,
            command=read.get("command") or (),
            env=read.get("env") or {},
            secrets=tuple(read.get("secrets", ())),
        )
