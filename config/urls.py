"""Routes of the web process."""

from importlib.util import find_spec

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from config import views

handler500 = "rental.web.broken.show_broken"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("rental.web.urls")),
    path("healthz", views.show_health, name="health"),
    path("readyz", views.show_readiness, name="readiness"),
    path("admin/", include("rental.operate.urls")),  # before the admin's own catch-all
    path("admin/", admin.site.urls),
    path("accounts/", include("allauth.urls")),
]
if find_spec("rental.api.urls") is not None:
    urlpatterns.append(path("v1/", include("rental.api.urls")))
