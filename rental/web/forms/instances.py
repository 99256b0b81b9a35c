"""What the pages of instances are asked: filters, names, settings. Checked input, no rules."""

import uuid
from dataclasses import dataclass
from urllib.parse import urlencode

from django import forms
from django.utils.translation import gettext_lazy as _

from rental.instances.queries import Sort
from rental.instances.states import StateWord
from rental.records import ids

SORTS = (
    ("-created", _("Newest first")),
    ("created", _("Oldest first")),
    ("name", _("Name, A to Z")),
    ("-name", _("Name, Z to A")),
)
MOST_MARKED = 100  # instances that one bulk command takes


class FilterForm(forms.Form):
    word = forms.ChoiceField(choices=StateWord.choices, required=False)
    q = forms.CharField(max_length=100, required=False)
    project = forms.CharField(max_length=40, required=False)
    sort = forms.ChoiceField(choices=SORTS, required=False)
    after = forms.CharField(max_length=400, required=False)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What the address says. Anything that cannot be read counts as not said."""

    word: str = ""
    q: str = ""
    project: str = ""
    sort: Sort = "-created"
    after: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        return (self.word,) if self.word else ()

    @property
    def project_id(self) -> uuid.UUID | None:
        return ids.from_text("prj", self.project) if self.project else None

    @property
    def is_filtered(self) -> bool:
        return bool(self.word or self.q or self.project)

    def query(self, **changes: str | None) -> str:
        """Return the address's query with some members changed; what is default is left out."""
        said: dict[str, str | None] = {
            "word": self.word,
            "q": self.q,
            "project": self.project,
            "sort": "" if self.sort == "-created" else self.sort,
        }
        said |= changes
        text = urlencode({name: value for name, value in said.items() if value})
        return f"?{text}" if text else ""


def read_filters(asked: dict[str, str]) -> Filters:
    form = FilterForm(asked)
    form.is_valid()
    clean = form.cleaned_data
    project = clean.get("project", "")
    try:
        ids.from_text("prj", project)
    except ids.MalformedId:
        project = ""
    return Filters(
        word=clean.get("word", ""),
        q=clean.get("q", "").strip(),
        project=project,
        sort=clean.get("sort") or "-created",
        after=clean.get("after") or None,
    )


class CommandForm(forms.Form):
    """``generation``: what the visitor looked at; ``name``: typed where data is lost."""

    generation = forms.IntegerField(min_value=1)
    name = forms.CharField(max_length=200, required=False, strip=False)


class TimersForm(forms.Form):
    """``auto_stop_at``: on the tenant's clock. ``stop_in``: hours from now, by a button."""

    auto_stop_at = forms.DateTimeField(required=False)
    max_duration_h = forms.DecimalField(
        required=False, min_value=0, max_value=10_000, decimal_places=2
    )
    stop_in = forms.IntegerField(required=False, min_value=1, max_value=10_000)
