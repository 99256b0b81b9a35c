"""The tenant's own settings: its name, and the zone in which its times are shown."""

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import gettext as _

from rental.records.ids import to_text
from rental.tenants import services
from rental.web.forms.team import SettingsForm
from rental.web.visit import Visit, action, by_method, page


@dataclass(frozen=True)
class SettingsPage:
    form: SettingsForm
    tenant_id: str
    billing_zone: str
    may_change: bool
    nav: str = "settings"


def _draw(visit: Visit, form: SettingsForm, *, status: int = 200) -> HttpResponse:
    context = SettingsPage(
        form=form,
        tenant_id=to_text("ten", visit.tenant.id),
        billing_zone=settings.BILLING_TIME_ZONE,
        may_change=visit.may("tenant:write"),
    )
    return visit.render("web/team/settings.html", context, status=status)


@page("tenant:read")
def show(visit: Visit) -> HttpResponse:
    tenant = visit.tenant
    return _draw(visit, SettingsForm(initial={"name": tenant.name, "time_zone": tenant.time_zone}))


@action("tenant:write")
def change(visit: Visit) -> HttpResponse:
    form = SettingsForm(visit.request.POST)
    if not form.is_valid():
        return _draw(visit, form, status=422)
    services.change_tenant(
        tenant=visit.tenant, actor=visit.actor, now=visit.now, **form.cleaned_data
    )
    visit.toast(_("Saved."))
    return visit.redirect("settings", tenant=visit.tenant.slug)


settings_of_tenant = by_method(show, change)
