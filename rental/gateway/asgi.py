"""The gateway as an ASGI application: agents' WebSocket, enrolment, health, metrics."""

import asyncio
from typing import Any

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.handlers.asgi import ASGIHandler

from rental.gateway.process import Gateway
from rental.gateway.routing import websocket_urlpatterns


class GatewayHTTP(ASGIHandler):
    """Django with the gateway's routes instead of the web process's."""

    def create_request(self, *args: Any, **kwargs: Any) -> Any:
        request, refusal = super().create_request(*args, **kwargs)
        if request is not None:
            request.urlconf = "rental.gateway.urls"
        return request, refusal


class GatewayApplication:
    """
    Composes the parts and starts and stops the lanes with the server (ASGI lifespan).

    The WebSocket stands outside any check of origins: agents are no browsers and send none. On
    SIGTERM uvicorn closes the links with 1012 and ends the lifespan; then the lanes are drained.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._router = ProtocolTypeRouter(
            {"http": GatewayHTTP(), "websocket": URLRouter(websocket_urlpatterns)}
        )

    async def __call__(
        self, scope: dict[str, Any], receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        self.gateway.start()  # for servers that run no lifespan; else it has started
        await self._router({**scope, "gateway": self.gateway}, receive, send)

    async def _live(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await receive()
        self.gateway.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self.gateway.stop)
        await send({"type": "lifespan.shutdown.complete"})


def build_gateway() -> GatewayApplication:
    """Return the application of one gateway process. Call once Django is set up."""
    return GatewayApplication(Gateway())
