"""Projects: the tenant's cost centres."""

import uuid
from typing import Any

from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import Problem
from rental.api.fields import Instant, Output, PageQuery, Prefixed
from rental.records.paging import Page
from rental.tenants.models import Project


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
