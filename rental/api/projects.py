"""Projects: the tenant's cost centres."""

import uuid
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import Problem, invalid
from rental.api.fields import Flag, Input, Instant, Output, PageQuery, Prefixed, Text
from rental.records.paging import Page
from rental.tenants import services
from rental.tenants.models import Project


class ProjectInput(Input):
    name = Text(max_length=80)
    slug = Text(
        max_length=40,
        required=False,
        help_text="For scripts: a–z, 0–9, inner hyphens. It stays; one is made if there is none.",
    )


class ProjectChange(Input):
    name = Text(max_length=80, required=False)
    is_default = Flag(
        required=False,
        help_text="true: orders that name no project go here. Name another one to undo it.",
    )


class ProjectOutput(Output):
    id = Prefixed("prj")
    slug = serializers.CharField()
    name = serializers.CharField()
    is_default = serializers.BooleanField()
    created_at = Instant()


class ProjectList(TenantView):
    @operation(
        Contract(
            name="list_projects",
            summary="List projects",
            verb="projects:read",
            output=ProjectOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Project]:
        return self.page(Project.objects.of(self.tenant_id), query)

    @operation(
        Contract(
            name="create_project",
            summary="Open a project",
            verb="projects:write",
            output=ProjectOutput,
            status=201,
            body=ProjectInput,
            once=True,
        )
    )
    def post(self, asked: dict[str, Any]) -> Project:
        return services.create_project(
            tenant=self.caller.key.tenant, actor=self.caller.actor, now=self.now, **asked
        )


class ProjectDetail(TenantView):
    @operation(
        Contract(
            name="get_project",
            summary="Get a project",
            verb="projects:read",
            output=ProjectOutput,
        )
    )
    def get(self, project_id: uuid.UUID) -> Project:
        project = Project.objects.of(self.tenant_id).filter(pk=project_id).first()
        if project is None:
            raise Problem(404, "not_found")
        return project

    @operation(
        Contract(
            name="change_project",
            summary="Rename a project, or make it the default",
            verb="projects:write",
            output=ProjectOutput,
            body=ProjectChange,
        )
    )
    def patch(self, project_id: uuid.UUID, asked: dict[str, Any]) -> Project:
        if not asked:
            raise invalid("", "required", _("Name what to change."))
        if asked.get("is_default") is False:
            raise invalid("is_default", "invalid", _("Make another project the default instead."))
        return _change(self, project_id, asked)


@transaction.atomic
def _change(view: TenantView, project_id: uuid.UUID, asked: dict[str, Any]) -> Project:
    """Both changes or neither."""
    facts: dict[str, Any] = {
        "tenant_id": view.tenant_id,
        "project_id": project_id,
        "actor": view.caller.actor,
        "now": view.now,
    }
    if "name" in asked:
        project = services.rename_project(name=asked["name"], **facts)
    if "is_default" in asked:
        project = services.make_project_default(**facts)
    return project
