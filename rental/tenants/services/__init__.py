"""What can be done with users, tenants, members and keys."""

from rental.tenants.services.api_keys import (
    authenticate_api_key,
    issue_api_key,
    revoke_api_key,
)
from rental.tenants.services.codes import make_code, use_code
from rental.tenants.services.invitations import (
    accept_invitation,
    find_invitation,
    invite,
    revoke_invitation,
)
from rental.tenants.services.members import (
    add_member,
    change_member_role,
    put_first_steps_away,
    remove_member,
)
from rental.tenants.services.projects import (
    create_project,
    make_project_default,
    rename_project,
)
from rental.tenants.services.ssh_keys import add_ssh_key, remove_ssh_key
from rental.tenants.services.tenants import (
    change_tenant,
    create_tenant,
    create_tenant_named,
    resume_tenant,
    set_verification_level,
    suspend_tenant,
)
from rental.tenants.services.users import (
    create_user,
    find_user,
    record_consent,
    rename_user,
    reset_password,
    set_contact,
    set_language,
)

__all__ = [
    "accept_invitation",
    "add_member",
    "add_ssh_key",
    "authenticate_api_key",
    "change_member_role",
    "change_tenant",
    "create_project",
    "create_tenant",
    "create_tenant_named",
    "create_user",
    "find_invitation",
    "find_user",
    "invite",
    "issue_api_key",
    "make_code",
    "make_project_default",
    "put_first_steps_away",
    "record_consent",
    "remove_member",
    "remove_ssh_key",
    "rename_project",
    "rename_user",
    "reset_password",
    "resume_tenant",
    "revoke_api_key",
    "revoke_invitation",
    "set_contact",
    "set_language",
    "set_verification_level",
    "suspend_tenant",
    "use_code",
]
