"""The tenant's cost centres."""

import uuid
from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _

from rental.tenants import queries, services
from rental.tenants.errors import SlugTaken
from rental.tenants.models import Project
from rental.web.forms.team import NewProjectForm, ProjectForm
from rental.web.visit import Visit, action, by_method, page


@dataclass(frozen=True)
class ProjectsPage:
    projects: list[Project]
    form: NewProjectForm
    nav: str = "projects"


def _draw(visit: Visit, form: NewProjectForm, *, status: int = 200) -> HttpResponse:
    projects = queries.projects_of(visit.tenant.id)
    return visit.render("web/team/projects.html", ProjectsPage(projects, form), status=status)


@page("projects:read")
def show_list(visit: Visit) -> HttpResponse:
    return _draw(visit, NewProjectForm())


@action("projects:write")
def create(visit: Visit) -> HttpResponse:
    form = NewProjectForm(visit.request.POST)
    if not form.is_valid():
        return _draw(visit, form, status=422)
    try:
        project = services.create_project(
            tenant=visit.tenant, actor=visit.actor, now=visit.now, **form.cleaned_data
        )
    except SlugTaken:
        form.add_error("slug", _("Another project has this short name."))
        return _draw(visit, form, status=409)
    visit.toast(_("The project %s is open.") % project.name)
    return visit.redirect("projects", tenant=visit.tenant.slug)


def _project(visit: Visit, project_id: uuid.UUID) -> Project:
    project = Project.objects.of(visit.tenant.id).filter(pk=project_id).first()
    if project is None:
        raise Http404
    return project


@page("projects:write")
def ask_name(visit: Visit, project_id: uuid.UUID) -> HttpResponse:
    project = _project(visit, project_id)
    form = ProjectForm(initial={"name": project.name})
    return visit.render("web/team/_project.html", {"project": project, "form": form})


@action("projects:write")
def rename(visit: Visit, project_id: uuid.UUID) -> HttpResponse:
    project = _project(visit, project_id)
    form = ProjectForm(visit.request.POST)
    if not form.is_valid():
        page = {"project": project, "form": form}
        return visit.render("web/team/_project.html", page, status=422)
    services.rename_project(
        tenant_id=visit.tenant.id,
        project_id=project_id,
        name=form.cleaned_data["name"],
        actor=visit.actor,
        now=visit.now,
    )
    visit.toast(_("Saved."))
    return visit.redirect("projects", tenant=visit.tenant.slug)


@action("projects:write")
def make_default(visit: Visit, project_id: uuid.UUID) -> HttpResponse:
    """Orders that name no project go here from now on; running ones stay where they are."""
    project = services.make_project_default(
        tenant_id=visit.tenant.id, project_id=project_id, actor=visit.actor, now=visit.now
    )
    visit.toast(_("New instances go to %s.") % project.name)
    return visit.redirect("projects", tenant=visit.tenant.slug)


listing = by_method(show_list, create)
name_of_project = by_method(ask_name, rename)
