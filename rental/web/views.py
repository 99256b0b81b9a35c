"""The landing page."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def landing(request: HttpRequest) -> HttpResponse:
    """Say what this is; link to the API's page, the admin and the login."""
    return render(request, "web/landing.html")
