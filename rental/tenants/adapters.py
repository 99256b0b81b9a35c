"""What allauth asks us: who may sign up (nobody yet), and whom it may mail."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedAccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth is untyped
    """
    Log in by e-mail address and password; users come from the seed and from the admin.

    Signing up opens with the customers' console, together with verification and consent.
    """

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def populate_username(self, request: HttpRequest, user: Any) -> None:
        """There are no user names."""
