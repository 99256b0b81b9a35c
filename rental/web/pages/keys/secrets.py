"""Secrets: values that instances get by name. They come in here and are never shown again."""

import uuid
from collections import defaultdict
from dataclasses import dataclass

from django.conf import settings
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables

from rental.instances.errors import BadSecret
from rental.instances.models import Instance, Secret
from rental.instances.secrets import AT_REST, put_secret, remove_secret
from rental.records.ids import to_text
from rental.web.forms.keys import SecretForm
from rental.web.key_words import wrong_secret
from rental.web.pages.keys.tabs import Tab, tabs_of
from rental.web.visit import Visit, action, by_method, page


@dataclass(frozen=True, kw_only=True)
class User:
    """An instance that names a secret. ``is_at_rest``: it keeps nobody from removing it."""

    name: str
    url: str
    is_at_rest: bool


@dataclass(frozen=True, kw_only=True)
class SecretShown:
    secret: Secret
    users: list[User]


@dataclass(frozen=True, kw_only=True)
class SecretsContext:
    """``can_keep``: the deployment has a key to seal them with."""

    secrets: list[SecretShown]
    form: SecretForm
    can_keep: bool
    tabs: list[Tab]
    tab: str = "secrets"
    nav: str = "keys"


def _users(visit: Visit) -> dict[str, list[User]]:
    """Return by name of a secret which instances name it. One query."""
    found: defaultdict[str, list[User]] = defaultdict(list)
    naming = Instance.objects.of(visit.tenant.id).present().exclude(secrets=[])
    rows = naming.order_by("name", "pk").values_list("pk", "name", "state", "secrets")
    for pk, name, state, secrets in rows:
        url = f"{visit.home}instances/{to_text('ins', pk)}"
        for secret in secrets:
            found[secret].append(User(name=name, url=url, is_at_rest=state in AT_REST))
    return found


def _show(visit: Visit, form: SecretForm, *, status: int = 200) -> HttpResponse:
    users = _users(visit)
    kept = Secret.objects.of(visit.tenant.id).defer("ciphertext").order_by("name")
    return visit.render(
        "web/keys/secrets.html",
        SecretsContext(
            secrets=[SecretShown(secret=one, users=users.get(one.name, [])) for one in kept],
            form=form,
            can_keep=settings.SECRETS_KEY is not None,
            tabs=tabs_of(visit),
        ),
        status=status,
    )


@page("secrets:read")
def show_secrets(visit: Visit) -> HttpResponse:
    """``name`` in the address fills the form: "replace the value of …"."""
    return _show(visit, SecretForm(initial={"name": visit.request.GET.get("name", "")[:128]}))


@action("secrets:write")
@sensitive_variables()
def keep(visit: Visit) -> HttpResponse:
    """Twice is once: the second puts the same value in the place of the first."""
    form = SecretForm(visit.request.POST)
    if form.is_valid():
        try:
            secret = put_secret(
                tenant_id=visit.tenant.id,
                name=form.cleaned_data["name"],
                # A browser sends line ends as CRLF; a key or a certificate has LF.
                value=form.cleaned_data["value"].replace("\r\n", "\n"),
                actor=visit.actor,
                now=visit.now,
                request_id=visit.request_id,
            )
        except BadSecret as error:
            name = error.field if error.field in form.fields else "name"
            form.add_error(name, wrong_secret(name))
        else:
            visit.toast(_("%(name)s is kept.") % {"name": secret.name})
            return visit.redirect(f"{visit.home}keys/secrets")
    return _show(visit, form, status=422)


@dataclass(frozen=True, kw_only=True)
class RemoveContext:
    """``blockers``: who keeps it from being removed; ``resting``: who will lack it at a start."""

    secret: Secret
    blockers: list[User]
    resting: list[User]


def _secret_of(visit: Visit, secret_id: uuid.UUID) -> Secret:
    secret = Secret.objects.of(visit.tenant.id).defer("ciphertext").filter(pk=secret_id).first()
    if secret is None:
        raise Http404
    return secret


@page("secrets:write")
def ask_to_remove(visit: Visit, secret_id: uuid.UUID) -> HttpResponse:
    secret = _secret_of(visit, secret_id)
    users = _users(visit).get(secret.name, [])
    return visit.render(
        "web/keys/_remove_secret.html",
        RemoveContext(
            secret=secret,
            blockers=[user for user in users if not user.is_at_rest],
            resting=[user for user in users if user.is_at_rest],
        ),
    )


@action("secrets:write")
def remove(visit: Visit, secret_id: uuid.UUID) -> HttpResponse:
    name = _secret_of(visit, secret_id).name
    remove_secret(
        tenant_id=visit.tenant.id,
        secret_id=secret_id,
        actor=visit.actor,
        now=visit.now,
        request_id=visit.request_id,
    )
    visit.toast(_("%(name)s is removed.") % {"name": name})
    return visit.redirect(f"{visit.home}keys/secrets")


secrets = by_method(show_secrets, keep)
remove_kept = by_method(ask_to_remove, remove)
