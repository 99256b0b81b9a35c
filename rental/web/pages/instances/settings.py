"""
The settings tab: name, protection, timers, access, failing nodes; and the danger zone.

Each card is a form of its own that changes its own part; a refusal is said in its card.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.forms import Form
from django.http import HttpResponse, QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from rental.instances import orders, services
from rental.instances.queries import InstanceSheet
from rental.instances.services import Changes
from rental.records import ids
from rental.refusals import Refusal
from rental.tenants.models import SshKey
from rental.web.forms.instances import CommandForm, TimersForm
from rental.web.once import new_key
from rental.web.pages.instances.answers import changed_event, in_words
from rental.web.pages.instances.finding import sheet_of
from rental.web.pages.instances.shown import Shown, shown_of
from rental.web.visit import Visit, action

# "Stop in …" as buttons: hours.
SOON: Final = (1, 2, 4, 8, 24, 72)
SAVED: Final[dict[str, Promise]] = {
    "name": _("The name is saved."),
    "protected": _("The protection is saved."),
    "timers": _("The timers are saved."),
    "keys": _("The keys are saved; the instance has them within seconds."),
    "failover": _("What happens when its node fails is saved."),
    "password": _("Password log-in is saved; the instance follows within seconds."),
}


@dataclass(frozen=True, kw_only=True)
class KeyChoice:
    key: SshKey
    text: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True)
class Settings:
    """
    ``keys``: those of the tenant, None for whoever may not see them. ``longest_h``: the longest
    duration in hours, as the field takes it. ``can_replace``: whether it may be set to start
    elsewhere when its node is lost. ``refusal``: why the change of
    ``part`` was not taken; ``typed`` is what stood in its fields.
    """

    keys: list[KeyChoice] | None
    once: str
    longest_h: str
    can_replace: bool = False
    soon: tuple[int, ...] = SOON
    part: str = ""
    refusal: Refusal | None = None
    typed: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class SettingsContext:
    shown: Shown
    sheet: InstanceSheet
    settings: Settings
    tab: str = "settings"
    nav: str = "instances"


def settings_of(visit: Visit, sheet: InstanceSheet, **failed: Any) -> Settings:
    keys = None
    if visit.may("ssh_keys:read"):
        chosen = set(sheet.instance.ssh_key_ids)
        known = SshKey.objects.of(visit.tenant.id).live().order_by("name", "pk")
        keys = [
            KeyChoice(key=key, text=ids.to_text("ssh", key.pk), is_chosen=key.pk in chosen)
            for key in known
        ]
    longest = sheet.instance.max_duration_s
    return Settings(
        keys=keys,
        once=new_key(),
        can_replace=orders.may_be_replaced(sheet.instance),
        longest_h="" if longest is None else f"{longest / 3600:.2f}".rstrip("0").rstrip("."),
        **failed,
    )


class _Unreadable(ValueError):
    """The form's fields cannot be read; ``field`` is at fault."""

    def __init__(self, form: Form) -> None:
        self.field, errors = next(iter(form.errors.items()))
        super().__init__(str(errors[0]))


def _name(visit: Visit, post: QueryDict) -> Changes:
    return {"name": post.get("name", "")}


def _protected(visit: Visit, post: QueryDict) -> Changes:
    return {"protected": post.get("protected") == "1"}


def _timers(visit: Visit, post: QueryDict) -> Changes:
    """:raises _Unreadable: if a field is no time or no number"""
    form = TimersForm(post)
    if not form.is_valid():
        raise _Unreadable(form)
    hours = form.cleaned_data["stop_in"]
    if hours is not None:
        return {"auto_stop_at": visit.now + timedelta(hours=hours)}
    longest = form.cleaned_data["max_duration_h"]
    return {
        "auto_stop_at": form.cleaned_data["auto_stop_at"],
        "max_duration_s": None if longest is None else int(longest * 3600),
    }


def _keys(visit: Visit, post: QueryDict) -> Changes:
    """:raises MalformedId: if one is no key's id"""
    return {"ssh_key_ids": [ids.from_text("ssh", text) for text in post.getlist("key")]}


def _password(visit: Visit, post: QueryDict) -> Changes:
    return {"password_login": post.get("password_login") == "1"}


def _failover(visit: Visit, post: QueryDict) -> Changes:
    return {
        "on_node_loss": post.get("on_node_loss", ""),
        "migrate_ok": post.get("migrate_ok") == "1",
    }


PARTS: Final[dict[str, Callable[[Visit, QueryDict], Changes]]] = {
    "name": _name,
    "protected": _protected,
    "timers": _timers,
    "keys": _keys,
    "failover": _failover,
    "password": _password,
}


@action("instances:write")
def change(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    """Change one part of the settings, and answer with the tab as it is then."""
    post = visit.request.POST
    part, form = post.get("part", ""), CommandForm(post)
    form.is_valid()
    generation = form.cleaned_data.get("generation")
    if part not in PARTS or generation is None:
        return HttpResponse(status=400)
    try:
        changes = PARTS[part](visit, post)
    except _Unreadable as error:
        refusal = Refusal(422, "invalid_request", str(error), error.field)
        return _refuse(visit, instance_id, part, refusal)

    def run() -> dict[str, Any]:
        services.update_instance(
            tenant_id=visit.tenant.id,
            instance_id=instance_id,
            changes=changes,
            if_generation=generation,
            actor=visit.actor,
            now=visit.now,
            request_id=visit.request_id,
        )
        return {}

    try:
        visit.once(run)
    except Exception as error:
        refused = visit.refusal(error)
        if refused is None or refused.status == 404:
            raise
        return _refuse(visit, instance_id, part, in_words(error, refused))
    visit.toast(str(SAVED[part]))
    return _answer(visit, instance_id)


def _refuse(visit: Visit, instance_id: uuid.UUID, part: str, refusal: Refusal) -> HttpResponse:
    typed = visit.request.POST.dict()
    return _answer(visit, instance_id, part=part, refusal=refusal, typed=typed)


def _answer(visit: Visit, instance_id: uuid.UUID, **failed: Any) -> HttpResponse:
    if not visit.is_htmx:
        if refusal := failed.get("refusal"):
            visit.toast(refusal.words, "bad")
        text = ids.to_text("ins", instance_id)
        return visit.redirect(f"{visit.home}instances/{text}?tab=settings")
    sheet = sheet_of(visit, instance_id)
    (shown,) = shown_of([sheet], visit)
    if not failed:
        visit.trigger(changed_event(instance_id))
    context = SettingsContext(
        shown=shown, sheet=sheet, settings=settings_of(visit, sheet, **failed)
    )
    status = failed["refusal"].status if failed else 200
    return visit.render("web/instances/_settings.html", context, status=status)
