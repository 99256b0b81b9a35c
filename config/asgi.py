"""
What the servers run: ``config.asgi:application`` (web) and ``config.asgi:gateway`` (agents).

Each is built when it is asked for, so that a gateway holds no console in memory and a web
process no agent's door.
"""

import os
from typing import Any

from config.env import BadSetting, env_text

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")


def build_web() -> Any:
    """
    Return the web application: HTTP of API, admin and console, and browsers' WebSockets.

    :raises BadSetting: if SECRET_KEY is not set outside of DEBUG
    """
    import django

    django.setup()  # only then can the others be imported

    from django.conf import settings

    if not settings.DEBUG and not env_text("SECRET_KEY", ""):
        # One that each process makes for itself ends sessions and cursors at every restart, and
        # between two processes at every request. Commands that serve nobody may do without.
        raise BadSetting(
            "SECRET_KEY (or SECRET_KEY_FILE) is not set; make one by: openssl rand -hex 32"
        )

    from channels.auth import AuthMiddlewareStack
    from channels.routing import ProtocolTypeRouter, URLRouter
    from channels.security.websocket import AllowedHostsOriginValidator

    from rental.api.threads import KeptThreads
    from rental.realtime.routing import websocket_urlpatterns

    sockets = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))
    return ProtocolTypeRouter({"http": KeptThreads(), "websocket": sockets})


def build_gateway() -> Any:
    """Return the gateway: enrolment, agents' WebSocket, health and metrics."""
    import django

    django.setup()

    from rental.gateway.asgi import build_gateway as build

    return build()


_BUILDERS = {"application": build_web, "gateway": build_gateway}


def __getattr__(name: str) -> Any:
    """Build ``application`` or ``gateway`` once, at the first look."""
    if name not in _BUILDERS:
        raise AttributeError(name)
    built = _BUILDERS[name]()
    globals()[name] = built
    return built
