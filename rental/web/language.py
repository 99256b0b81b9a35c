"""In which language a person reads: kept with him, followed on every page, set by the switch."""

from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.decorators import sync_only_middleware
from django.views.decorators.http import require_POST
from django.views.i18n import set_language

from rental.tenants import services
from rental.tenants.models import User


@sync_only_middleware
def follow_user(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """
    Answer in the language of who is signed in; strangers get that of their cookie or browser.

    Stands behind the authentication. Programs send no cookie, so they cost no query here.
    """

    def handle(request: HttpRequest) -> HttpResponseBase:
        language = _language_of(request)
        if language is None or language == translation.get_language():
            return get_response(request)
        with translation.override(language):
            request.LANGUAGE_CODE = language
            response = get_response(request)
            # The locale's middleware asks after this block, when the language is another again.
            response.headers.setdefault("Content-Language", language)
            return response

    return handle


def _language_of(request: HttpRequest) -> str | None:
    if settings.SESSION_COOKIE_NAME not in request.COOKIES:
        return None
    try:
        user = request.user
        if isinstance(user, User) and user.language in dict(settings.LANGUAGES):
            return user.language
    except (OperationalError, InterfaceError):
        pass  # the page itself says that the database is away
    return None


@require_POST
def switch(request: HttpRequest) -> HttpResponse:
    """
    Change the language, for this browser and for the person. Goes to ``next``; to the address that
    the browser names where this is the same page, since filters move it after the page was made.
    """
    wanted = request.POST.get("language", "")
    if isinstance(request.user, User) and wanted in dict(settings.LANGUAGES):
        services.set_language(user=request.user, language=wanted)
    response: HttpResponse = set_language(request)
    came, going = urlsplit(request.headers.get("Referer", "")), response.get("Location", "")
    if came.netloc == request.get_host() and came.path == urlsplit(going).path:
        response["Location"] = urlunsplit(("", "", came.path, came.query, ""))
    return response
