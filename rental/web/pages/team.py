"""Who belongs to the tenant: members, their roles, invitations."""

import uuid
from dataclasses import dataclass, field

from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from rental.tenants import queries, services
from rental.tenants.errors import AlreadyAMember
from rental.tenants.models import Invitation, Membership, Role
from rental.web.forms.team import InviteForm, RoleForm
from rental.web.roles import ROLE_WORDS, RoleWords
from rental.web.visit import Visit, action, by_method, page


@dataclass(frozen=True)
class MemberRow:
    """``may_change``: whether who looks may give this member another role or remove him."""

    member: Membership
    words: RoleWords
    is_you: bool
    is_last_owner: bool
    may_change: bool


@dataclass(frozen=True)
class TeamPage:
    """``link``: of the invitation just made; it is shown this once."""

    members: list[MemberRow]
    invitations: list[Invitation]
    form: InviteForm
    roles: list[RoleWords] = field(default_factory=lambda: list(ROLE_WORDS.values()))
    link: str = ""
    invited: str = ""
    nav: str = "team"


def _rows(visit: Visit) -> list[MemberRow]:
    members = queries.members_of(visit.tenant.id)
    owners = sum(member.role == Role.OWNER for member in members)
    return [
        MemberRow(
            member=member,
            words=ROLE_WORDS[Role(member.role)],
            is_you=member.user_id == visit.user.pk,
            is_last_owner=member.role == Role.OWNER and owners == 1,
            may_change=visit.may("members:write")
            and (member.role != Role.OWNER or visit.role == Role.OWNER),
        )
        for member in members
    ]


def _draw(
    visit: Visit, form: InviteForm, *, status: int = 200, link: str = "", invited: str = ""
) -> HttpResponse:
    invitations = queries.open_invitations_of(visit.tenant.id, at=visit.now)
    page = TeamPage(_rows(visit), invitations, form, link=link, invited=invited)
    return visit.render("web/team/team.html", page, status=status)


@page("members:read")
def show(visit: Visit) -> HttpResponse:
    return _draw(visit, InviteForm(by=visit.role))


@action("members:write")
def invite(visit: Visit) -> HttpResponse:
    """Make an invitation and show its link, which nobody can read again."""
    form = InviteForm(visit.request.POST, by=visit.role)
    if not form.is_valid():
        return _draw(visit, form, status=422)
    contact = form.cleaned_data["contact"]
    try:
        _row, token = services.invite(
            tenant=visit.tenant,
            contact=contact,
            role=form.cleaned_data["role"],
            invited_by=visit.user,
            by=visit.role,
            actor=visit.actor,
            now=visit.now,
        )
    except AlreadyAMember:
        form.add_error("contact", _("This person is a member already."))
        return _draw(visit, form, status=409)
    link = visit.request.build_absolute_uri(reverse("invited", kwargs={"token": token}))
    return _draw(visit, InviteForm(by=visit.role), link=link, invited=contact.value)


@action("members:write")
def revoke(visit: Visit, invitation_id: uuid.UUID) -> HttpResponse:
    services.revoke_invitation(
        tenant_id=visit.tenant.id, invitation_id=invitation_id, actor=visit.actor, now=visit.now
    )
    visit.toast(_("The invitation is revoked; its link opens nothing."))
    return visit.redirect("team", tenant=visit.tenant.slug)


def _member(visit: Visit, user_id: uuid.UUID) -> Membership:
    rows = Membership.objects.of(visit.tenant.id).select_related("user")
    member = rows.filter(user_id=user_id).first()
    if member is None:
        raise Http404
    return member


@dataclass(frozen=True)
class RolePage:
    member: Membership
    form: RoleForm
    roles: list[RoleWords] = field(default_factory=lambda: list(ROLE_WORDS.values()))


@page("members:write")
def ask_role(visit: Visit, user_id: uuid.UUID) -> HttpResponse:
    member = _member(visit, user_id)
    form = RoleForm(by=visit.role, initial={"role": member.role})
    return visit.render("web/team/_role.html", RolePage(member, form))


@action("members:write")
def change_role(visit: Visit, user_id: uuid.UUID) -> HttpResponse:
    member = _member(visit, user_id)
    form = RoleForm(visit.request.POST, by=visit.role)
    if not form.is_valid():
        return visit.render("web/team/_role.html", RolePage(member, form), status=422)
    role = form.cleaned_data["role"]
    services.change_member_role(
        tenant=visit.tenant,
        user=member.user,
        role=role,
        by=visit.role,
        actor=visit.actor,
        now=visit.now,
    )
    visit.toast(_("%(who)s: %(role)s.") % {"who": member.user, "role": role.label})
    return visit.redirect("team", tenant=visit.tenant.slug)


@page("members:write")
def ask_remove(visit: Visit, user_id: uuid.UUID) -> HttpResponse:
    return visit.render("web/team/_remove.html", {"member": _member(visit, user_id)})


@action("members:write")
def remove(visit: Visit, user_id: uuid.UUID) -> HttpResponse:
    member = _member(visit, user_id)
    services.remove_member(
        tenant=visit.tenant, user=member.user, by=visit.role, actor=visit.actor, now=visit.now
    )
    visit.toast(_("%s does not belong to this tenant any more.") % member.user)
    return visit.redirect("team", tenant=visit.tenant.slug)


@page("tenant:read")
def ask_leave(visit: Visit) -> HttpResponse:
    return visit.render("web/team/_leave.html")


@action("tenant:read")
def leave(visit: Visit) -> HttpResponse:
    """Everybody may go, whatever his role; the last owner cannot."""
    services.remove_member(tenant=visit.tenant, user=visit.user, actor=visit.actor, now=visit.now)
    del visit.request.session["tenant"]
    visit.toast(_("You left %s.") % visit.tenant.name)
    return visit.redirect("console")


@action("tenant:read")
def dismiss_steps(visit: Visit) -> HttpResponse:
    """Put the first steps away; the empty answer takes their place."""
    services.put_first_steps_away(member=visit.membership, now=visit.now)
    return HttpResponse("") if visit.is_htmx else visit.redirect(visit.home)


role_of_member = by_method(ask_role, change_role)
removal_of_member = by_method(ask_remove, remove)
leaving = by_method(ask_leave, leave)
