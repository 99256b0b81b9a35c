"""Addresses of the launch page, below /t/<slug>/."""

from django.urls import path

from rental.web.pages.launch import views

urlpatterns = [
    path("launch", views.show_launch, name="launch"),
    path("launch/estimate", views.show_estimate, name="launch_estimate"),
    path("launch/order", views.place_order, name="launch_order"),
    path("launch/elsewhere", views.show_elsewhere, name="launch_elsewhere"),
    path("launch/stock", views.show_stock, name="launch_stock"),
]
