"""Who may open the admin: staff, with a second factor where STAFF_MFA_REQUIRED says so."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, cast

from allauth.account.decorators import secure_admin_login
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from rental.records.audit import Actor
from rental.records.ids import to_text
from rental.tenants.models import StaffRole, User

View = Callable[..., HttpResponse]
APPS: Final = ("rental", "scheduler", "billing", "tenants")  # of the verbs <app>:read and :write
MOST_GIVERS: Final = 5


class VerbMissing(PermissionDenied):
    """``verb`` is a staff verb that no role of the member of staff has."""

    def __init__(self, verb: str) -> None:
        super().__init__(f"needs {verb}")
        self.verb = verb


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
    no failures. Staff without a factor are led to set one up, and who may not is told who can help.
    """
    own_login = secure_admin_login(site.login)
    site.login = _factor_first(own_login)  # type: ignore[method-assign]
    site.has_permission = may_enter  # type: ignore[method-assign]
    site.admin_view = _explained(site)  # type: ignore[method-assign]
    site.extra_context = _with_account_links  # type: ignore[attr-defined]  # unfold's hook


def _factor_first(login: View) -> View:
    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        if isinstance(user, User) and user.is_staff and not may_enter(request):
            words = _("The administration opens with a second factor: set one up first.")
            messages.warning(request, words)
            return redirect("mfa_activate_totp")
        return login(request, *args, **kwargs)

    return view


def _with_account_links(context: dict[str, Any], _request: HttpRequest) -> dict[str, Any]:
    """A password changed at allauth's page ends the other sessions; the admin's page does not."""
    links = (
        (_("Second factor"), "mfa_index"),
        (_("Change password"), "account_change_password"),
    )
    shown = [{"title": words, "link": reverse(name)} for words, name in links]
    return context | {"account_links": shown}


def _explained(site: AdminSite) -> Any:
    """Let a page that refuses answer with what is missing, instead of a bare 403."""
    own = site.admin_view

    def admin_view(view: View, cacheable: bool = False) -> View:
        @wraps(view)
        def told(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                return view(request, *args, **kwargs)
            except PermissionDenied as refusal:
                verb = refusal.verb if isinstance(refusal, VerbMissing) else _verb_of(request)
                return explain(request, site, verb=verb, status=403)

        return own(told, cacheable)

    return admin_view


def _verb_of(request: HttpRequest) -> str:
    """Return the verb that a list of the admin lacks; "" where none would do."""
    app = request.path.removeprefix(reverse("admin:index")).partition("/")[0]
    verbs = [f"{app}:{what}" for what in ("read", "write")] if app in APPS else []
    return next((verb for verb in verbs if not staff_user(request).has_staff_verb(verb)), "")


def explain(
    request: HttpRequest, site: AdminSite, *, verb: str = "", status: int = 200
) -> HttpResponse:
    """Show which roles the member of staff has, which ones have ``verb``, and who gives them."""
    bosses = User.objects.filter(is_superuser=True, is_staff=True, is_active=True)
    context = site.each_context(request) | {
        "title": _("This is not open to you") if verb or status == 403 else _("No role yet"),
        "verb": verb,
        "roles": list(staff_user(request).staff_roles.order_by("name")),
        "holders": list(StaffRole.objects.filter(verbs__overlap=[verb, "*"]).order_by("name")),
        "givers": list(bosses.order_by("created_at")[:MOST_GIVERS]),
    }
    return render(request, "admin/refused.html", context, status=status)
