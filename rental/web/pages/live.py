"""What pages ask for by themselves: versions while no socket tells them, and samples for charts."""

import uuid
from typing import Final

from django.http import Http404, HttpResponse, JsonResponse
from django.urls import path

from rental.instances.models import Instance
from rental.instances.samples.queries import LONGEST, Series, read_samples
from rental.records.ids import MalformedId, from_text, to_text
from rental.web import converters  # noqa: F401  # registers <ins:…>
from rental.web.visit import Visit, page

MOST: Final = 500  # ids in one question, as on the socket
HOUR: Final = 60  # minutes


@page("instances:read")
def show_versions(visit: Visit) -> HttpResponse:
    """``?ids=ins_…,ins_…``: the versions of those that are the tenant's. One query."""
    rows = Instance.objects.of(visit.tenant.id).filter(pk__in=_ids(visit.request.GET.get("ids")))
    versions = {to_text("ins", pk): version for pk, version in rows.values_list("pk", "version")}
    return JsonResponse({"versions": versions})


@page("instances:read")
def show_samples(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    """``?minutes=``: what the API's samples show, in columns as charts take them."""
    if not Instance.objects.of(visit.tenant.id).filter(pk=instance_id).exists():
        raise Http404
    series = read_samples(
        tenant_id=visit.tenant.id,
        instance_id=instance_id,
        minutes=_minutes(visit.request.GET.get("minutes", "")),
        now=visit.now,
    )
    return JsonResponse(_columns(series))


def _columns(series: Series) -> dict[str, object]:
    """Times are seconds since 1970. ``figures``: mean and highest of each, in rows of time."""
    samples = series.samples
    return {
        "source": series.source,
        "step_s": series.step_s,
        "since": int(series.since.timestamp()),
        "until": int(series.until.timestamp()),
        "at": [int(one.at.timestamp()) for one in samples],
        "util": [one.util_percent for one in samples],
        "util_max": [one.util_percent_max for one in samples],
        "vram": [one.vram_mib for one in samples],
        "vram_max": [one.vram_mib_max for one in samples],
        "watts": [one.watts for one in samples],
        "watts_max": [one.watts_max for one in samples],
        "celsius": [one.celsius for one in samples],
        "celsius_max": [one.celsius_max for one in samples],
    }


def _ids(text: str | None) -> list[uuid.UUID]:
    """Read what can be read; a page that asks for more is told of the first ones."""
    found = []
    for word in (text or "").split(",")[:MOST]:
        try:
            found.append(from_text("ins", word))
        except MalformedId:
            continue
    return found


def _minutes(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= 6
    return min(LONGEST, max(1, int(text))) if is_number else HOUR


urlpatterns = [
    path("t/<slug:tenant>/live/versions", show_versions, name="live_versions"),
    path("t/<slug:tenant>/instances/<ins:instance_id>/samples", show_samples, name="samples"),
]
