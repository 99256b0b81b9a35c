"""Addresses of the pages of instances, below /t/<slug>/."""

from django.urls import path

from rental.web import converters  # noqa: F401  # registers <ins:…>
from rental.web.pages.instances import (
    bulk,
    detail,
    dialogs,
    listing,
    password,
    rename,
    settings,
)
from rental.web.pages.instances.buttons import LOOKS

ONE = "instances/<ins:instance_id>"

urlpatterns = [
    path("instances", listing.show_list, name="instances"),
    path("instances/counts", listing.show_counts, name="instances_counts"),
    path("find", listing.show_found, name="find"),
    path("instances/bulk-stop", bulk.bulk, name="instances_bulk_stop"),
    path(ONE, detail.show_detail, name="instance"),
    path(f"{ONE}/row", listing.show_row, name="instance_row"),
    path(f"{ONE}/header", detail.show_header, name="instance_header"),
    path(f"{ONE}/cost.csv", detail.export_cost, name="instance_cost"),
    path(f"{ONE}/rename", rename.rename, name="instance_rename"),
    path(f"{ONE}/settings", settings.change, name="instance_settings"),
    path(f"{ONE}/password", password.password, name="instance_password"),
    *(
        path(f"{ONE}/{word}", dialogs.dialog, {"word": word}, name=f"instance_{word}")
        for word in LOOKS
    ),
]
