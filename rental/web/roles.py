"""The roles of members in words: what each may do. docs and pages say the same."""

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from rental.tenants.models import Role


@dataclass(frozen=True)
class RoleWords:
    """``may``: what the role is for, in one sentence."""

    role: Role
    may: str | Promise

    @property
    def code(self) -> str:
        return self.role.value

    @property
    def label(self) -> str | Promise:
        return self.role.label


ROLE_WORDS: Final[dict[Role, RoleWords]] = {
    words.role: words
    for words in (
        RoleWords(Role.OWNER, _("Everything, the name of the tenant and its owners included.")),
        RoleWords(
            Role.ADMIN,
            _("Everything but the tenant's own settings; cannot make or remove owners."),
        ),
        RoleWords(
            Role.DEVELOPER,
            _("Starts and stops instances, keeps keys and secrets; sees the balance."),
        ),
        RoleWords(Role.BILLING, _("Sees and pays what things cost, keeps projects; starts none.")),
        RoleWords(Role.VIEWER, _("Looks at instances and costs; changes nothing.")),
    )
}


def roles_to_give(by: str) -> list[RoleWords]:
    """Return what a member in the role ``by`` may make others; only an owner makes owners."""
    return [words for role, words in ROLE_WORDS.items() if role != Role.OWNER or by == Role.OWNER]
