"""Fleet: the map, and the switches of a node."""

import uuid
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext_lazy as _

from rental.operate.fleet import NODES_ON_A_PAGE, STATES, Filters, load_fleet
from rental.operate.node import guests_of
from rental.operate.page import CHANGE, asked, may, show, staff_page
from rental.records.clock import database_now
from rental.tenants.admin import staff_actor
from scheduler.errors import UnknownNode
from scheduler.models import Node
from scheduler.services import hardware

READ, WRITE = "scheduler:read", "scheduler:write"

SWITCHES: Final[dict[str, tuple[Any, Any]]] = {
    "cordon": (hardware.cordon, _("%(node)s is cordoned: nothing more is placed there.")),
    "uncordon": (hardware.uncordon, _("%(node)s takes instances again.")),
    "drain": (
        hardware.drain,
        _("%(node)s is being drained: what may be moved is moved, the rest stops in time."),
    ),
}


@staff_page(READ)
def fleet(request: HttpRequest) -> HttpResponse:
    filters = Filters(
        region=asked(request, "region"),
        zone=asked(request, "zone"),
        model=_uuid_or_none(asked(request, "model")),
        state=asked(request, "state"),
    )
    found = load_fleet(filters, after=asked(request, "after"))
    return show(
        request,
        "fleet.html",
        title=_("Fleet"),
        fleet=found,
        filters=filters,
        is_filtered=filters != Filters(),
        states=STATES,
        page_size=NODES_ON_A_PAGE,
        may_write=may(request, WRITE),
        now=database_now(),
    )


def _uuid_or_none(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


@staff_page(READ)
def node(request: HttpRequest, node_id: uuid.UUID) -> HttpResponse:
    """Who is on one node, and draining it: that ends what they do, so it begins with a look."""
    found = get_object_or_404(Node.objects.select_related("liveness"), pk=node_id)
    liveness = getattr(found, "liveness", None)
    return show(
        request,
        "node.html",
        title=_("Node %(name)s") % {"name": found.name},
        node=found,
        heard=liveness.status if liveness else "",
        guests=guests_of(found),
        windows=list(found.windows.announced()),
        may_write=may(request, WRITE),
    )


@staff_page(WRITE, CHANGE)
def change_node(request: HttpRequest, node_id: uuid.UUID, verb: str) -> HttpResponse:
    if verb not in SWITCHES:
        raise Http404
    change, words = SWITCHES[verb]
    try:
        change(node_id=node_id, actor=staff_actor(request), now=database_now())
    except UnknownNode:
        raise Http404 from None
    messages.success(request, words % {"node": request.POST.get("name", "")[:64]})
    return redirect("operate:node", node_id) if verb == "drain" else redirect("operate:fleet")
