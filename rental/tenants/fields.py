"""Model fields of this app."""

from typing import Any

from django.db import models


class LowerEmailField(models.EmailField):  # type: ignore[type-arg]  # not generic at run time
    """An e-mail address that is one address in any case: kept and looked up in lower case."""

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        return value.strip().lower() if isinstance(value, str) else value

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = self.get_prep_value(getattr(model_instance, self.attname))
        setattr(model_instance, self.attname, value)
        return value
