"""Where somebody who signs in arrives: his last tenant, or a page that says how to get one."""

from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import gettext as _

from rental.tenants import services
from rental.tenants.models import Membership, Role, Tenant
from rental.web.forms.joining import TenantForm
from rental.web.person import Person, personal

# A tenant is free; a script that opens thousands is not.
MOST_OWNED = 10


@personal("GET")
def show_console(person: Person) -> HttpResponse:
    """Go to the tenant that was looked at last, else to the first; staff without one to theirs."""
    if person.visit is not None:
        return person.redirect(person.visit.home)
    if person.user.is_staff:
        return person.redirect("admin:index")
    return person.redirect("no_tenant")


@personal("GET", "POST")
def open_tenant(person: Person) -> HttpResponse:
    """Say that there is no tenant yet, or open one (without trial credit: that is sign-up's)."""
    form = TenantForm(person.request.POST or None)
    if person.request.method == "POST" and not _may_open(person):
        form.add_error(None, _("You own as many tenants as one person can."))
    if settings.SIGNUP_ENABLED and form.is_valid():
        tenant: Tenant = services.create_tenant_named(
            name=form.cleaned_data["name"],
            owner=person.user,
            project_name=_("Default"),
            now=person.now,
        )
        person.toast(_("%s is open.") % tenant.name)
        return person.redirect(f"/t/{tenant.slug}/")
    page = {"form": form, "may_open": settings.SIGNUP_ENABLED}
    return person.render("web/joining/no_tenant.html", page, status=422 if form.is_bound else 200)


def _may_open(person: Person) -> bool:
    rows = Membership.objects.filter(user=person.user, role=Role.OWNER)
    return settings.SIGNUP_ENABLED and rows.count() < MOST_OWNED
