"""Routes of the pages."""

from django.urls import path
from django.views.i18n import set_language

from rental.web import views

urlpatterns = [
    path("", views.landing, name="landing"),
    path("language", set_language, name="set_language"),
]
