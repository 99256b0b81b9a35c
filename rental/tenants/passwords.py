"""How long a password must be, in words that our translations have."""

from django.contrib.auth.password_validation import MinimumLengthValidator
from django.utils.translation import ngettext


class MinimumLength(MinimumLengthValidator):
    """Django's own check: only its sentence is ours, which Django's Chinese lacks."""

    def get_error_message(self) -> str:
        least = self.min_length
        words = ngettext(
            "This is too short: use at least %(n)d character.",
            "This is too short: use at least %(n)d characters.",
            least,
        )
        return words % {"n": least}
