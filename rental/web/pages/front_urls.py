"""Routes of the pages that belong to no tenant and no person."""

from django.urls import path

from rental.web.pages import components, landing

urlpatterns = [
    path("", landing.show_landing, name="landing"),
    path("dev/components", components.show_components, name="components"),
]
