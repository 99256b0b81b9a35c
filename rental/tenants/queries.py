"""What pages ask about people and tenants. Each function is one query."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise

from rental.tenants.models import Invitation, Membership, Project, Role, User


@dataclass(frozen=True)
class Place:
    """A tenant that somebody belongs to, and as what."""

    slug: str
    name: str
    role: str
    status: str

    @property
    def label(self) -> str | Promise:
        return Role(self.role).label


def tenants_of(user: User) -> list[Place]:
    """Return the tenants of a user by name: what the switcher shows."""
    rows = Membership.objects.filter(user=user).order_by("tenant__name", "tenant__slug")
    columns = ("tenant__slug", "tenant__name", "role", "tenant__status")
    return [Place(*row) for row in rows.values_list(*columns)]


def members_of(tenant_id: uuid.UUID) -> list[Membership]:
    """Return the members with their users, in the order in which they came."""
    rows = Membership.objects.of(tenant_id).select_related("user")
    return list(rows.order_by("created_at", "pk"))


def open_invitations_of(tenant_id: uuid.UUID, *, at: datetime) -> list[Invitation]:
    rows = Invitation.objects.of(tenant_id).open(at=at).select_related("invited_by")
    return list(rows.order_by("-created_at", "-pk"))


def projects_of(tenant_id: uuid.UUID) -> list[Project]:
    """Return the projects, the default one first."""
    return list(Project.objects.of(tenant_id).order_by("-is_default", "name", "pk"))
