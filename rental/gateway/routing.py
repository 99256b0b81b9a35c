"""Routes of the gateway's WebSockets: one, for agents."""

from django.urls import URLPattern, path

from rental.gateway.consumer import AgentConsumer

websocket_urlpatterns: list[URLPattern] = [
    path("agent/v1", AgentConsumer.as_asgi(), name="agent"),
]
