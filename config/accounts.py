"""Who may get an account by himself: nobody yet. Users come from the seed and from the admin."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class LoginOnly(DefaultAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
