"""Routes of the API. Nouns in the plural, no trailing slash; what is not here answers 404."""

from django.urls import path, re_path

from rental.api import (
    catalog,
    docs,
    events,
    instances,
    keys,
    members,
    money,
    operations,
    passwords,
    projects,
    quotes,
    samples,
    secrets,
    tenant,
)

app_name = "api"

urlpatterns = [
    path("docs", docs.docs, name="docs"),
    path("openapi.json", docs.openapi, name="openapi"),
    path("offers", catalog.OfferList.as_view()),
    path("images", catalog.ImageList.as_view()),
    path("gpu-models", catalog.GpuModelList.as_view()),
    path("regions", catalog.RegionList.as_view()),
    path("quotes", quotes.QuoteCreate.as_view()),
    path("quotes/<str:quote_id>", quotes.QuoteDetail.as_view()),
    path("instances", instances.InstanceList.as_view()),
    path("instances/<str:instance_id>", instances.InstanceDetail.as_view()),
    path("instances/<str:instance_id>/stop", instances.InstanceStop.as_view()),
    path("instances/<str:instance_id>/start", instances.InstanceStart.as_view()),
    path("instances/<str:instance_id>/restart", instances.InstanceRestart.as_view()),
    path("instances/<str:instance_id>/release", instances.InstanceRelease.as_view()),
    path("instances/<str:instance_id>/password", passwords.InstancePassword.as_view()),
    path("instances/<str:instance_id>/samples", samples.InstanceSamples.as_view()),
    path("instances/<str:instance_id>/segments", money.InstanceSegments.as_view()),
    path("instances/<str:instance_id>/charges", money.InstanceCharges.as_view()),
    path("operations", operations.OperationList.as_view()),
    path("operations/<str:operation_id>", operations.OperationDetail.as_view()),
    path("balance", money.BalanceDetail.as_view()),
    path("charges", money.ChargeList.as_view()),
    path("transfers", money.TransferList.as_view()),
    path("projects", projects.ProjectList.as_view()),
    path("projects/<str:project_id>", projects.ProjectDetail.as_view()),
    path("members", members.MemberList.as_view()),
    path("members/<str:user_id>", members.MemberDetail.as_view()),
    path("invitations", members.InvitationList.as_view()),
    path("invitations/<str:invitation_id>", members.InvitationDetail.as_view()),
    path("tenant", tenant.TenantDetail.as_view()),
    path("ssh-keys", keys.SshKeyList.as_view()),
    path("ssh-keys/<str:ssh_key_id>", keys.SshKeyDetail.as_view()),
    path("secrets", secrets.SecretList.as_view()),
    path("secrets/<str:secret_id>", secrets.SecretDetail.as_view()),
    path("api-keys", keys.ApiKeyList.as_view()),
    path("api-keys/<str:api_key_id>", keys.ApiKeyDetail.as_view()),
    path("events", events.EventList.as_view()),
    # The last one: everything else under /v1 answers a problem, not Django's HTML.
    re_path(r"^[\s\S]*$", docs.Nothing.as_view()),
]
