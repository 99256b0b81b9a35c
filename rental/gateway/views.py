"""The gateway's HTTP side: enrolment, health, metrics."""

import msgspec
import structlog
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from rental.gateway.door import DoorStuck
from rental.gateway.problems import problem
from rental.gateway.process import Gateway
from rental.gateway.scheduler_metrics import in_text
from scheduler.errors import EnrolmentRefused
from scheduler.gauges import read_gauges
from scheduler.services.enrolment import Enrolled, enrol

log = structlog.get_logger()

# A refusal of another code is one of the token: 403.
_STATUS = {"name": 400, "no_nodes": 400, "node_taken": 409, "zone": 409}


class EnrolInput(msgspec.Struct, forbid_unknown_fields=True):
    """What an agent shows to be let in for good: a token, its name, its nodes' names."""

    token: str
    agent: str
    nodes: list[str]


def _gateway(request: HttpRequest) -> Gateway:
    gateway: Gateway = request.scope["gateway"]  # type: ignore[attr-defined]  # ASGIRequest
    return gateway


@csrf_exempt  # no cookie is looked at: the token in the body is the right to enrol
@require_POST
async def enrol_agent(request: HttpRequest) -> HttpResponse:
    """Make an agent of a one-time token. The credential is shown here and never again."""
    gateway = _gateway(request)
    try:
        asked = msgspec.json.decode(request.body, type=EnrolInput)
    except msgspec.MsgspecError as error:
        return problem(400, "malformed", str(error))

    def answer() -> Enrolled:
        return enrol(
            token=asked.token,
            agent_name=asked.agent,
            nodes=asked.nodes,
            now=gateway.clock.now(),
        )

    try:
        enrolled = await gateway.door.ask(answer)
    except EnrolmentRefused as refusal:
        return problem(_STATUS.get(refusal.code, 403), refusal.code, refusal.detail)
    except DoorStuck:
        return problem(503, "database_away", "try again in a few seconds")
    log.info("gateway.agent_enrolled", agent=str(enrolled.agent_id), nodes=asked.nodes)
    return JsonResponse(
        {
            "agent": str(enrolled.agent_id),
            "credential": enrolled.credential,
            "nodes": enrolled.nodes,
        },
        status=201,
    )


@require_GET
async def show_health(request: HttpRequest) -> HttpResponse:
    """
    Answer 200 while every lane works within its bound, else 503 and why.

    503 is a reason to call a person, not to restart the gateway: while PostgreSQL is away a
    restart loses what waits and cuts links that are answered from memory.
    """
    if complaints := _gateway(request).complaints():
        return JsonResponse({"status": "late", "reasons": complaints}, status=503)
    return JsonResponse({"status": "ok"})


@require_GET
async def show_metrics(request: HttpRequest) -> HttpResponse:
    """What this gateway counts, and the gauges of the scheduler while PostgreSQL answers."""
    gateway = _gateway(request)
    text = generate_latest()
    try:
        gauges = await gateway.door.ask(lambda: read_gauges(now=gateway.clock.now()))
    except DoorStuck:
        log.warning("gateway.metrics_without_gauges")
    else:
        text += in_text(gauges)
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)
