"""The first page."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def show_landing(request: HttpRequest) -> HttpResponse:
    """Say what this is, and where prices, sign-up, console and API are."""
    trial = settings.SIGNUP_TRIAL_CREDIT if settings.SIGNUP_ENABLED else 0
    return render(request, "web/landing.html", {"trial": trial})
