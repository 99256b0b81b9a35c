"""Tables whose rows are never changed: by trigger for everyone, by grant for the app's role."""

from typing import Any, ClassVar

import pgtrigger
from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.db import models


class AppendOnly(models.Model):
    """
    Base of models whose rows are only ever inserted. A mistake is undone by another row.

    The trigger refuses UPDATE and DELETE whoever asks; ``manage.py grant_roles`` reads
    ``append_only`` and gives the app's role no UPDATE, DELETE or TRUNCATE either (a trigger
    can be switched off by the owner; a missing grant cannot be by the app). A subclass with a
    Meta of its own must inherit ``AppendOnly.Meta``, or the trigger is lost: ``check`` says so.
    """

    append_only: ClassVar[bool] = True

    class Meta:
        abstract = True
        triggers = [
            pgtrigger.Protect(name="rows_are_never_changed", operation=pgtrigger.Update),
            pgtrigger.Protect(name="rows_are_never_deleted", operation=pgtrigger.Delete),
        ]

    @classmethod
    def check(cls, **kwargs: Any) -> list[CheckMessage]:
        problems = super().check(**kwargs)
        guarded = {str(trigger.name) for trigger in getattr(cls._meta, "triggers", [])}
        missing = {str(trigger.name) for trigger in AppendOnly.Meta.triggers} - guarded
        if missing:
            problems.append(
                Error(
                    f"{cls.__name__} is append-only but lacks the triggers {sorted(missing)}.",
                    hint="Let its Meta inherit AppendOnly.Meta and extend Meta.triggers.",
                    obj=cls,
                    id="records.E001",
                )
            )
        return problems


def append_only_models() -> list[type[models.Model]]:
    """Return every installed concrete model that is marked append-only."""
    return [model for model in apps.get_models() if getattr(model, "append_only", False)]
