"""Who may open the admin: staff, with a second factor where STAFF_MFA_REQUIRED says so."""

from collections.abc import Callable
from typing import Any, cast

from allauth.account.decorators import secure_admin_login
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from rental.records.audit import Actor
from rental.records.ids import to_text
from rental.tenants.models import User


def staff_user(request: HttpRequest) -> User:
    """Return who is logged in; the admin lets nobody else in."""
    return cast(User, request.user)


def staff_actor(request: HttpRequest) -> Actor:
    """Return the member of staff who is logged in, as audit events name him."""
    return Actor(kind="staff", id=to_text("usr", staff_user(request).pk))


def may_enter(request: HttpRequest) -> bool:
    """Say whether the admin opens; every one of its pages asks (``AdminSite.admin_view``)."""
    user = request.user
    if not (isinstance(user, User) and user.is_active and user.is_staff):
        return False
    return not settings.STAFF_MFA_REQUIRED or has_second_factor(user)


def has_second_factor(user: User) -> bool:
    """Say whether the user has set one up; log-in asks for it then. One query."""
    factors = Authenticator.objects.filter(user=user).exclude(
        type=Authenticator.Type.RECOVERY_CODES
    )
    return bool(factors.exists())


def guard(site: AdminSite) -> None:
    """
    Let people in by allauth's log-in: the admin's own form asks for no second factor and counts
    no failures. Staff without a factor are led to set one up.
    """
    own_login = secure_admin_login(site.login)
    site.login = _factor_first(own_login)  # type: ignore[method-assign]
    site.has_permission = may_enter  # type: ignore[method-assign]


def _factor_first(login: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        if isinstance(user, User) and user.is_staff and not may_enter(request):
            words = _("The administration opens with a second factor: set one up first.")
            messages.warning(request, words)
            return redirect("mfa_activate_totp")
        return login(request, *args, **kwargs)

    return view
