"""The base of every admin page for money, state and logs: to be read, never to be edited."""

from typing import Any

from django.db import models
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    """
    Shows rows. What changes them are actions that call a service (DESIGN §3.6).

    Deleting is refused as well: it would cascade where a service decides.
    """

    actions_on_top = True

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
