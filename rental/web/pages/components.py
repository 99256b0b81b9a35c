"""The pattern library: every component in every state, for whoever builds pages."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from rental.instances.states import StateWord
from rental.web.answers import with_events
from rental.web.icons import icons

NOON = datetime(2026, 3, 2, 4, 0, tzinfo=UTC)


class SampleForm(forms.Form):
    """One field of each kind."""

    name = forms.CharField(label="Name", help_text="Lower case letters, digits and dashes.")
    region = forms.ChoiceField(label="Region", choices=[("a", "Shanghai"), ("b", "Ningxia")])
    note = forms.CharField(label="Note", widget=forms.Textarea(attrs={"rows": 3}), required=False)
    stays = forms.BooleanField(label="Stay signed in", required=False)
    market = forms.ChoiceField(
        label="Market", widget=forms.RadioSelect, choices=[("d", "On demand"), ("s", "Spot")]
    )


@dataclass(frozen=True)
class Page:
    words: list[StateWord] = field(default_factory=lambda: list(StateWord))
    tones: tuple[str, ...] = ("ok", "info", "warn", "bad", "idle")
    amounts: tuple[int, ...] = (0, 1, 4_900, 12_345_678, -2_500_000, 1_234_567_890_000)
    moment: datetime = NOON
    steps: list[dict[str, Any]] = field(default_factory=lambda: _steps())
    tabs: list[dict[str, Any]] = field(default_factory=lambda: _tabs())
    form: SampleForm = field(default_factory=SampleForm)
    wrong: SampleForm = field(
        default_factory=lambda: SampleForm({"name": "", "region": "a", "market": "d"})
    )
    icon_names: list[str] = field(default_factory=lambda: list(icons()))


def _steps() -> list[dict[str, Any]]:
    return [
        {"label": "Reserved", "state": "done", "at": NOON, "seconds": 2},
        {"label": "Image", "state": "failed", "at": NOON + timedelta(seconds=2), "seconds": 31,
         "note": "The registry did not answer.", "raw": "dial tcp: lookup registry: no such host"},
        {"label": "Image, again", "state": "now", "note": "312 of 2,040 MB"},
        {"label": "Ready", "state": "wait"},
    ]  # fmt: skip


def _tabs() -> list[dict[str, Any]]:
    return [
        {"name": "connect", "label": "Connect", "url": "?tab=connect"},
        {"name": "events", "label": "Events", "url": "?tab=events", "count": 12},
        {"name": "cost", "label": "Cost", "url": "?tab=cost"},
    ]


@require_safe
def show_components(request: HttpRequest) -> HttpResponse:
    """For staff, and for everybody while developing."""
    if not (settings.DEBUG or getattr(request.user, "is_staff", False)):
        raise Http404
    if level := request.GET.get("toast"):
        event = {"toast": [{"text": "The instance stops.", "level": level}]}
        return with_events(HttpResponse(status=409 if level == "bad" else 204), event)
    template = "web/components/page.html"
    if request.headers.get("HX-Request"):
        template = "web/components/_dialog.html"
    page = Page()
    return render(request, template, {name: getattr(page, name) for name in Page.__annotations__})
