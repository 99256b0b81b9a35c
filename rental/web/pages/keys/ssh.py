"""SSH keys: whom the instances of a tenant let in."""

import uuid
from dataclasses import dataclass, field

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _

from rental.instances.models import Instance
from rental.records.ids import to_text
from rental.tenants.errors import MalformedSshKey, SshKeyExists
from rental.tenants.models import SshKey
from rental.tenants.services import add_ssh_key, remove_ssh_key
from rental.web.forms.keys import SshKeyForm
from rental.web.key_words import why_not
from rental.web.pages.keys.tabs import Tab, tabs_of
from rental.web.visit import Visit, action, by_method, page


@dataclass(frozen=True, kw_only=True)
class SshKeyShown:
    """``uses``: how many instances let it in; ``may_end``: this visitor may remove it."""

    key: SshKey
    uses: int
    is_own: bool
    may_end: bool


@dataclass(frozen=True, kw_only=True)
class SshContext:
    keys: list[SshKeyShown]
    form: SshKeyForm
    tabs: list[Tab]
    tab: str = "ssh"
    nav: str = "keys"


def may_end(visit: Visit, owner_id: uuid.UUID, verb: str) -> bool:
    """The rule of the services (tenants.services._reach), to show no button that is refused."""
    return visit.may(verb) and (owner_id == visit.user.pk or visit.may("members:write"))


def _show(visit: Visit, form: SshKeyForm, *, status: int = 200) -> HttpResponse:
    keys = SshKey.objects.of(visit.tenant.id).live().select_related("user")
    uses = _uses(visit.tenant.id)
    return visit.render(
        "web/keys/ssh.html",
        SshContext(
            keys=[
                SshKeyShown(
                    key=key,
                    uses=uses.get(key.pk, 0),
                    is_own=key.user_id == visit.user.pk,
                    may_end=may_end(visit, key.user_id, "ssh_keys:write"),
                )
                for key in keys.order_by("-created_at", "-pk")
            ],
            form=form,
            tabs=tabs_of(visit),
        ),
        status=status,
    )


def _uses(tenant_id: uuid.UUID) -> dict[uuid.UUID, int]:
    """Return how many instances name each key. One query."""
    counted: dict[uuid.UUID, int] = {}
    present = Instance.objects.of(tenant_id).present().order_by()
    for key_ids in present.values_list("ssh_key_ids", flat=True):
        for key_id in key_ids:
            counted[key_id] = counted.get(key_id, 0) + 1
    return counted


@page("ssh_keys:read")
def show_ssh_keys(visit: Visit) -> HttpResponse:
    return _show(visit, SshKeyForm())


@action("ssh_keys:write")
def add_key(visit: Visit) -> HttpResponse:
    form = SshKeyForm(visit.request.POST)
    if form.is_valid():
        try:
            name = _add(visit, form)
        except (MalformedSshKey, SshKeyExists) as error:
            form.add_error("public_key", why_not(error))
        else:
            words = _("“%(name)s” is added. New instances can let it in; choose it at launch.")
            visit.toast(words % {"name": name})
            return visit.redirect(f"{visit.home}keys")
    return _show(visit, form, status=422)


def _add(visit: Visit, form: SshKeyForm) -> str:
    def act() -> dict[str, str]:
        key = add_ssh_key(
            tenant=visit.tenant,
            user=visit.user,
            name=form.cleaned_data["name"],
            public_key=form.cleaned_data["public_key"],
            actor=visit.actor,
            now=visit.now,
        )
        return {"name": key.name}

    return str(visit.once(act)["name"])


@dataclass(frozen=True, kw_only=True)
class RemoveContext:
    """``users``: names of instances that let the key in, with their addresses."""

    key: SshKey
    is_own: bool
    users: list[tuple[str, str]] = field(default_factory=list)


def _key_of(visit: Visit, ssh_key_id: uuid.UUID) -> SshKey:
    keys = SshKey.objects.of(visit.tenant.id).live().select_related("user")
    key = keys.filter(pk=ssh_key_id).first()
    if key is None:
        raise Http404
    return key


@page("ssh_keys:write")
def ask_to_remove(visit: Visit, ssh_key_id: uuid.UUID) -> HttpResponse:
    key = _key_of(visit, ssh_key_id)
    users = Instance.objects.of(visit.tenant.id).present()
    users = users.filter(ssh_key_ids__contains=[key.pk]).order_by("name", "pk")
    return visit.render(
        "web/keys/_remove_ssh.html",
        RemoveContext(
            key=key,
            is_own=key.user_id == visit.user.pk,
            users=[
                (name, f"{visit.home}instances/{to_text('ins', pk)}")
                for name, pk in users.values_list("name", "pk")
            ],
        ),
    )


@action("ssh_keys:write")
def remove(visit: Visit, ssh_key_id: uuid.UUID) -> HttpResponse:
    key = remove_ssh_key(
        tenant_id=visit.tenant.id, key_id=ssh_key_id, actor=visit.actor, now=visit.now
    )
    visit.toast(_("“%(name)s” is removed.") % {"name": key.name})
    return visit.redirect(f"{visit.home}keys")


ssh_keys = by_method(show_ssh_keys, add_key)
remove_key = by_method(ask_to_remove, remove)
