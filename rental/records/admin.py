"""The base of every admin page for money, state and logs: to be read, never to be edited."""

import re
from collections.abc import Iterable
from typing import Any, Final

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin, TabularInline

from rental.records.ids import MalformedId, from_text

# The public form of an id, as customers and logs name things.
PUBLIC_ID: Final = re.compile(r"\b([a-z]{2,3})_[0-9a-z]{26}\b")


def as_uuids(words: str) -> str:
    """Return search words with every public id (`ins_…`) as the UUID that the column holds."""

    def uuid_of(found: re.Match[str]) -> str:
        try:
            return str(from_text(found[1], found[0]))
        except MalformedId:
            return found[0]

    return PUBLIC_ID.sub(uuid_of, words)


def linked_all(pages: Iterable[tuple[Any, str]]) -> SafeString:
    """Return links, each of (words, address), in the colour that the admin's other links have."""
    css = "text-primary-600 dark:text-primary-500"
    found = [(address, css, words) for words, address in pages]
    return format_html_join(" · ", '<a href="{}" class="{}">{}</a>', found)


def linked(name: str, label: Any) -> Any:
    """Return a column that shows the related row ``name`` and leads to its page."""

    @admin.display(description=label, ordering=name)
    def column(row: Any) -> Any:
        other = getattr(row, name)
        if other is None:
            return "–"
        address = f"admin:{other._meta.app_label}_{other._meta.model_name}_change"
        return linked_all([(other, reverse(address, args=[other.pk]))])

    return column


def links(*pages: tuple[Any, str, str]) -> SafeString:
    """
    Return links to pages of the admin, each of (words, name of the page, rest of the address).

    A page is named, not imported: it may be of a floor above, which may not be there.
    """
    found = []
    for words, name, rest in pages:
        try:
            found.append((words, f"{reverse(name)}{rest}"))
        except NoReverseMatch:
            continue
    return linked_all(found)


SEE_ALSO: Final = _("see also")


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    """
    Shows rows. What changes them are actions that call a service (DESIGN §3.6).

    Deleting is refused as well: it would cascade where a service decides.
    """

    actions_on_top = True
    # Whether a public id that is searched for stands in the table as a UUID (or else as it is).
    keeps_uuids = True

    def get_fields(self, request: HttpRequest, obj: models.Model | None = None) -> Any:
        """The way to other pages comes first: it is what most look for."""
        fields = list(super().get_fields(request, obj))
        return sorted(fields, key=lambda name: name != "see_also")

    def get_search_results(
        self, request: HttpRequest, queryset: "models.QuerySet[Any]", search_term: str
    ) -> Any:
        words = as_uuids(search_term) if self.keeps_uuids else search_term
        return super().get_search_results(request, queryset, words)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def get_actions(self, request: HttpRequest) -> Any:
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions


class ReadOnlyInline(TabularInline):  # type: ignore[misc]  # unfold is untyped
    """Rows of another table inside a page, under the same rule."""

    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False
