"""Addresses of the price page, and of the way from it to a launch."""

from django.urls import path

from rental.web.pages import prices

urlpatterns = [
    path("prices", prices.show_prices, name="prices"),
    path("launch", prices.launch_somewhere, name="launch_somewhere"),
]
