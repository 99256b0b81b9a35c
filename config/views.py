"""What a load balancer asks."""

import structlog
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

log = structlog.get_logger()


@require_safe
def show_health(request: HttpRequest) -> HttpResponse:
    """This process answers. Says nothing of others: restarting it would not heal them."""
    return JsonResponse({"status": "ok"})


@require_safe
def show_readiness(request: HttpRequest) -> HttpResponse:
    """This process can serve orders: its database answers."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        log.warning("web.not_ready", error=str(error))
        return JsonResponse({"status": "database away"}, status=503)
    return JsonResponse({"status": "ok"})
