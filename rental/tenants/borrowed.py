"""What allauth's pages say in other Chinese words than ours: worded anew in our locale/."""

from typing import Final

from django.utils.translation import gettext_noop

WORDS: Final = (
    gettext_noop("Activate"),
    gettext_noop("An authenticator app is not active."),
    gettext_noop("Authentication using an authenticator app is active."),
    gettext_noop("Authenticator App"),
    gettext_noop("Authenticator code"),
    gettext_noop("Deactivate"),
    gettext_noop("Deactivate Authenticator App"),
    gettext_noop("No recovery codes set up."),
    gettext_noop("Recovery Codes"),
    gettext_noop("Two-Factor Authentication"),
)
