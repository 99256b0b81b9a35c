"""Queue: who waits and why, and taking a request back for a customer."""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext_lazy as _

from rental.instances.models import Instance
from rental.operate.forms import ReasonForm
from rental.operate.page import FORM, asked, may, show, staff_page
from rental.operate.queue import WaitsNoMore, cancel_waiting, load_queue
from rental.operate.words import reasons_in_words
from rental.records.clock import database_now
from rental.tenants.admin import staff_actor
from scheduler.models import Request

READ, WRITE = "scheduler:read", "rental:write"


@staff_page(READ)
def queue(request: HttpRequest) -> HttpResponse:
    tenant = asked(request, "tenant")
    return show(
        request,
        "queue.html",
        title=_("Queue"),
        queue=load_queue(tenant=tenant),
        tenant=tenant,
        may_write=may(request, WRITE),
        now=database_now(),
    )


@staff_page(WRITE, FORM)
def cancel(request: HttpRequest, request_id: uuid.UUID) -> HttpResponse:
    """Show what is taken back and ask why, then call the service."""
    waits = get_object_or_404(Request.objects.select_related("tenant"), pk=request_id)
    form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            instance = cancel_waiting(
                request_id=request_id,
                reason=form.cleaned_data["reason"],
                actor=staff_actor(request),
                now=database_now(),
            )
        except WaitsNoMore:
            messages.warning(request, _("It waits no more: nothing was changed."))
        else:
            messages.success(
                request, _("%(name)s waits no more; its hold is freed.") % {"name": instance.name}
            )
        return redirect("operate:queue")
    return show(
        request,
        "cancel_request.html",
        title=_("Take a request back"),
        asked=waits,
        instance=Instance.objects.select_related("offer").filter(pk=waits.instance_id).first(),
        reasons=reasons_in_words(waits.reasons),
        form=form,
    )
