"""The page for a bug of ours. It needs neither session nor database, and names the request."""

from django.http import HttpRequest, HttpResponseServerError
from django.template.loader import render_to_string
from django.views.decorators.csrf import requires_csrf_token


@requires_csrf_token
def show_broken(request: HttpRequest) -> HttpResponseServerError:
    context = {"request_id": getattr(request, "request_id", "")}
    return HttpResponseServerError(render_to_string("500.html", context))
