"""Projects: the cost centres of a tenant. A slug stays: charges and scripts name it."""

import uuid
from datetime import datetime

from django.db import transaction

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from rental.tenants.errors import SlugTaken, UnknownProject
from rental.tenants.models import Project, Tenant
from rental.tenants.services._rows import refused_as
from rental.tenants.services.tenants import check_slug, slug_of, with_tail


@transaction.atomic
def create_project(
    *, tenant: Tenant, name: str, slug: str = "", actor: Actor, now: datetime
) -> Project:
    """
    Open a cost centre. Without a ``slug`` one is made from the name.

    :raises MalformedSlug: if ``slug`` cannot be part of a host name
    :raises SlugTaken: if a project of the tenant has it
    """
    if slug:
        check_slug(slug)
    else:
        slug = slug_of(name, otherwise="p")
        if Project.objects.of(tenant.id).filter(slug=slug).exists():
            slug = with_tail(slug)
    with refused_as(SlugTaken(slug)):
        project = Project.objects.create(tenant=tenant, slug=slug, name=name, created_at=now)
    record_event(
        tenant_id=tenant.id,
        actor=actor,
        verb="project.created",
        subject=to_text("prj", project.id),
        after={"name": name, "slug": slug},
        now=now,
    )
    return project


@transaction.atomic
def rename_project(
    *, tenant_id: uuid.UUID, project_id: uuid.UUID, name: str, actor: Actor, now: datetime
) -> Project:
    """:raises UnknownProject: if the tenant has none such"""
    project = _locked(tenant_id, project_id)
    if (before := project.name) != name:
        project.name = name
        project.save(update_fields=["name"])
        record_event(
            tenant_id=tenant_id,
            actor=actor,
            verb="project.renamed",
            subject=to_text("prj", project.id),
            before={"name": before},
            after={"name": name},
            now=now,
        )
    return project


@transaction.atomic
def make_project_default(
    *, tenant_id: uuid.UUID, project_id: uuid.UUID, actor: Actor, now: datetime
) -> Project:
    """
    Let orders that name no project go to this one.

    :raises UnknownProject: if the tenant has none such
    """
    # All of them, in order: two at once would each take the mark from the third.
    rows = Project.objects.of(tenant_id).select_for_update(no_key=True).order_by("pk")
    found = {project.pk: project for project in rows}
    if project_id not in found:
        raise UnknownProject(to_text("prj", project_id))
    project = found[project_id]
    if project.is_default:
        return project
    before = [row for row in found.values() if row.is_default]
    Project.objects.of(tenant_id).filter(is_default=True).update(is_default=False)
    project.is_default = True
    project.save(update_fields=["is_default"])
    record_event(
        tenant_id=tenant_id,
        actor=actor,
        verb="project.made_default",
        subject=to_text("prj", project.id),
        before={"default": [to_text("prj", row.id) for row in before]},
        now=now,
    )
    return project


def _locked(tenant_id: uuid.UUID, project_id: uuid.UUID) -> Project:
    rows = Project.objects.of(tenant_id).filter(pk=project_id)
    project = rows.select_for_update(no_key=True).first()
    if project is None:
        raise UnknownProject(to_text("prj", project_id))
    return project
