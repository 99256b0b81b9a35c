"""Routes of the operator's pages, below ``/admin/`` and before the admin's own."""

from django.urls import path

from rental.operate.pages import credit, fleet, occupancy, overview, prices, queue, setup

app_name = "operate"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("setup/", setup.setup, name="setup"),
    path("setup/enrol/", setup.enrol, name="enrol"),
    path("fleet/", fleet.fleet, name="fleet"),
    path("fleet/<uuid:node_id>/", fleet.node, name="node"),
    path("fleet/<uuid:node_id>/<slug:verb>/", fleet.change_node, name="change_node"),
    path("queue/", queue.queue, name="queue"),
    path("queue/<uuid:request_id>/cancel/", queue.cancel, name="cancel_request"),
    path("occupancy/", occupancy.occupancy, name="occupancy"),
    path("occupancy.csv", occupancy.occupancy_csv, name="occupancy_csv"),
    path("credit/", credit.choose, name="credit"),
    path("credit/<slug:tenant>/", credit.credit, name="credit_tenant"),
    path("prices/", prices.prices, name="prices"),
    path("prices/change/", prices.change_many, name="change_prices"),
    path("prices/<slug:offer>/<slug:market>/", prices.publish, name="publish_price"),
]
