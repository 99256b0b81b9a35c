"""Routes of the pages."""

from django.urls import include, path

urlpatterns = [
    path("", include("rental.web.pages.front_urls")),
    path("", include("rental.web.pages.prices_urls")),
    path("t/<slug:tenant>/", include("rental.web.pages.instances.urls")),
    path("t/<slug:tenant>/", include("rental.web.pages.launch.urls")),
    path("t/<slug:tenant>/", include("rental.web.pages.money_urls")),
    path("", include("rental.web.pages.live")),
    path("", include("rental.web.pages.people_urls")),
]
