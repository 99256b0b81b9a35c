"""What can be done with users, tenants, members and keys."""

from rental.tenants.services.api_keys import (
    authenticate_api_key,
    issue_api_key,
    revoke_api_key,
)
from rental.tenants.services.members import add_member, change_member_role, remove_member
from rental.tenants.services.ssh_keys import add_ssh_key, remove_ssh_key
from rental.tenants.services.tenants import (
    create_project,
    create_tenant,
    resume_tenant,
    set_verification_level,
    suspend_tenant,
)
from rental.tenants.services.users import create_user, record_consent

__all__ = [
    "add_member",
    "add_ssh_key",
    "authenticate_api_key",
    "change_member_role",
    "create_project",
    "create_tenant",
    "create_user",
    "issue_api_key",
    "record_consent",
    "remove_member",
    "remove_ssh_key",
    "resume_tenant",
    "revoke_api_key",
    "set_verification_level",
    "suspend_tenant",
]
