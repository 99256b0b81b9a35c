"""The one exception to the content security policy."""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_only_middleware

# django-unfold builds on the Alpine build that evaluates expressions and on inline styles.
ADMIN_POLICY = {
    "script-src": ["'self'", "'unsafe-inline'", "'unsafe-eval'"],
    "style-src": ["'self'", "'unsafe-inline'"],
}


@sync_only_middleware
def relax_admin(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Give the admin the policy that its toolkit needs; every other page keeps the strict one."""

    def handle(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if request.path.startswith("/admin/"):
            response._csp_replace = ADMIN_POLICY  # type: ignore[attr-defined]
        return response

    return handle
