"""What every page of the operator's is made of: staff only, one verb, the admin's own frame."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, Protocol, cast

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.decorators import sync_only_middleware
from django.views.decorators.http import require_http_methods

from rental.tenants.models import User
from rental.tenants.staff import VerbMissing

View = Callable[..., HttpResponse]


class StaffPage(Protocol):
    """A view as the URL conf gets it. ``verb``: what a member of staff needs for it."""

    verb: str

    def __call__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse: ...


READ: Final = ("GET", "HEAD")
CHANGE: Final = ("POST",)
FORM: Final = ("GET", "HEAD", "POST")


def staff_page(verb: str, methods: tuple[str, ...] = READ) -> Callable[[View], StaffPage]:
    """
    Make a page of the admin that needs ``verb`` (``User.has_staff_verb``).

    Who is not signed in as staff is sent to the sign-in, who lacks the verb is told so.
    """

    def wrap(view: View) -> StaffPage:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not may(request, verb):
                raise VerbMissing(verb)
            return view(request, *args, **kwargs)

        page = cast(StaffPage, admin.site.admin_view(require_http_methods(methods)(checked)))
        page.verb = verb
        return page

    return wrap


def may(request: HttpRequest, verb: str) -> bool:
    """Say whether who is signed in may ``verb``; for buttons that others should not see."""
    return bool(cast(User, request.user).has_staff_verb(verb))


def asked(request: HttpRequest, name: str) -> str:
    """Return a parameter of the address, cut to what a filter can be; "" without it."""
    return request.GET.get(name, "").replace("\0", "").strip()[:80]  # PostgreSQL takes no NUL


def show(
    request: HttpRequest, template: str, *, title: Any, status: int = 200, **context: Any
) -> HttpResponse:
    """Render a page of ``templates/admin/operate`` in the frame of the admin."""
    frame = admin.site.each_context(request) | {"title": title, "zone": settings.BILLING_TIME_ZONE}
    return render(request, f"admin/operate/{template}", frame | context, status=status)


@sync_only_middleware
def in_billing_time(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Show and read times in the admin in the zone in which months are cut, for all staff."""

    def handle(request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith("/admin/"):
            return get_response(request)
        with timezone.override(settings.BILLING_TIME_ZONE):
            return get_response(request)

    return handle
