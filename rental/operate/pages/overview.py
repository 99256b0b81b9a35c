"""The landing of the admin: setup while something is needed, then the overview."""

from typing import cast

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _

from rental.operate.overview import look
from rental.operate.page import may, show
from rental.operate.setup import look_at_setup
from rental.records.clock import database_now
from rental.tenants.models import User
from rental.tenants.staff import explain

READ = "rental:read"


def _overview(request: HttpRequest) -> HttpResponse:
    """Whoever may not read it gets the admin's own list of what he may, or who gives roles."""
    user = cast(User, request.user)
    if not user.is_superuser and not user.staff_verbs():
        return explain(request, admin.site)
    if not may(request, READ):
        return admin.site.index(request)
    now = database_now()
    setup = look_at_setup(user=user, now=now)
    if setup.needed and "stay" not in request.GET:
        return redirect("operate:setup")
    return show(
        request,
        "overview.html",
        title=_("Overview"),
        setup=setup,
        now=now,
        overview=look(now=now),
        may_see_money=may(request, "billing:read"),
        may_see_fleet=may(request, "scheduler:read"),
        currency=settings.BILLING_CURRENCY,
    )


overview = admin.site.admin_view(_overview)
