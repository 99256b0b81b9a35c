"""All models of the app "tenants", those of the records floor included."""

from rental.records.models import AuditEvent, IdempotencyKey, OutboxMessage, PeriodicRun
from rental.tenants.models.joining import ContactCode, Invitation
from rental.tenants.models.keys import ApiKey, SshKey
from rental.tenants.models.tenants import Membership, Project, Role, Tenant
from rental.tenants.models.users import Consent, StaffRole, User

__all__ = [
    "ApiKey",
    "AuditEvent",
    "Consent",
    "ContactCode",
    "IdempotencyKey",
    "Invitation",
    "Membership",
    "OutboxMessage",
    "PeriodicRun",
    "Project",
    "Role",
    "SshKey",
    "StaffRole",
    "Tenant",
    "User",
]
