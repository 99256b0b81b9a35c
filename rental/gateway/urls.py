"""Routes of the gateway's HTTP side. Nothing else of the product is served here."""

from django.urls import path

from rental.gateway import views

handler400 = "rental.gateway.problems.show_malformed"
handler403 = "rental.gateway.problems.show_forbidden"
handler404 = "rental.gateway.problems.show_nothing_here"
handler500 = "rental.gateway.problems.show_broken"
urlpatterns = [
    path("agent/v1/enrol", views.enrol_agent, name="agent-enrol"),
    path("healthz", views.show_health, name="gateway-health"),
    path("metrics", views.show_metrics, name="gateway-metrics"),
]
