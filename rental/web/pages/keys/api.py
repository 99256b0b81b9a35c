"""API keys: made, shown once, revoked."""

import uuid
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables

from rental.tenants.errors import KeyNeverValid, ScopeExceedsRole
from rental.tenants.models import ApiKey
from rental.tenants.permissions import verbs_of_key
from rental.tenants.services import issue_api_key, revoke_api_key
from rental.web import key_words
from rental.web.forms.keys import ApiKeyForm
from rental.web.key_words import Noun, scope_words, why_not
from rental.web.pages.keys.ssh import may_end
from rental.web.pages.keys.tabs import Tab, tabs_of
from rental.web.snippets import first_call
from rental.web.visit import Visit, action, by_method, page

MOST_ENDED = 50


@dataclass(frozen=True, kw_only=True)
class ApiKeyShown:
    """``scopes``: each with its words. ``is_live``: neither revoked nor expired."""

    key: ApiKey
    scopes: list[tuple[str, str]]
    is_live: bool
    is_own: bool
    may_end: bool


@dataclass(frozen=True, kw_only=True)
class ApiContext:
    """
    ``secret``: the text of the key that was just made: in this one answer and never again;
    ``call``: a command that tries it.
    """

    live: list[ApiKeyShown]
    ended: list[ApiKeyShown]
    form: ApiKeyForm
    nouns: list[Noun]
    tabs: list[Tab]
    made: ApiKey | None = None
    secret: str = ""
    call: str = ""
    tab: str = "api"
    nav: str = "keys"


def _form(visit: Visit, *bound: object) -> ApiKeyForm:
    return ApiKeyForm(*bound, zone=ZoneInfo(visit.tenant.time_zone), now=visit.now)


def _shown(visit: Visit, key: ApiKey) -> ApiKeyShown:
    expired = key.expires_at is not None and key.expires_at <= visit.now
    is_live = key.revoked_at is None and not expired
    return ApiKeyShown(
        key=key,
        scopes=[(scope, scope_words(scope)) for scope in key.scopes],
        is_live=is_live,
        is_own=key.created_by_id == visit.user.pk,
        may_end=is_live and may_end(visit, key.created_by_id, "keys:write"),
    )


@sensitive_variables("secret")
def _show(
    visit: Visit,
    form: ApiKeyForm,
    *,
    made: uuid.UUID | None = None,
    secret: str = "",
    status: int = 200,
) -> HttpResponse:
    keys = ApiKey.objects.of(visit.tenant.id).select_related("created_by")
    shown = [_shown(visit, key) for key in keys.order_by("-created_at", "-pk")]
    made_key = next((one.key for one in shown if one.key.pk == made), None)
    return visit.render(
        "web/keys/api.html",
        ApiContext(
            live=[one for one in shown if one.is_live],
            ended=[one for one in shown if not one.is_live][:MOST_ENDED],
            form=form,
            nouns=key_words.nouns_of(visit.verbs, form.chosen if form.is_bound else {}),
            tabs=tabs_of(visit),
            made=made_key,
            secret=secret,
            call=_call(visit, made_key, secret) if made_key and secret else "",
        ),
        status=status,
    )


@sensitive_variables("secret")
def _call(visit: Visit, key: ApiKey, secret: str) -> str:
    verbs = verbs_of_key(scopes=key.scopes, creator_role=visit.role)
    return first_call(secret, verbs, root=visit.request.build_absolute_uri("/").rstrip("/"))


@page("keys:read")
def show_api_keys(visit: Visit) -> HttpResponse:
    return _show(visit, _form(visit))


@action("keys:write")
@sensitive_variables("secret")
def make_key(visit: Visit) -> HttpResponse:
    """Draw the page with the key on it: an answer to a POST, which no cache and no log keeps."""
    form = _form(visit, visit.request.POST)
    if not form.is_valid():
        return _show(visit, form, status=422)
    secret = ""

    def act() -> dict[str, str]:
        nonlocal secret
        key, secret = issue_api_key(
            tenant=visit.tenant,
            created_by=visit.user,
            name=form.cleaned_data["name"],
            kind=form.cleaned_data["kind"],
            scopes=_scopes(visit, form),
            expires_at=form.expires_at,
            actor=visit.actor,
            now=visit.now,
        )
        return {"id": str(key.pk)}

    try:
        made = uuid.UUID(visit.once(act)["id"])
    except ScopeExceedsRole as error:
        form.add_error("access", why_not(error))
    except KeyNeverValid:
        form.add_error("expires_on", _("The end lies in the past."))
    else:
        return _show(visit, _form(visit), made=made, secret=secret)
    return _show(visit, form, status=422)


def _scopes(visit: Visit, form: ApiKeyForm) -> list[str]:
    match form.cleaned_data["access"]:
        case "read":
            return key_words.only_reading(visit.verbs)
        case "instances":
            return key_words.for_instances(visit.verbs)
        case "all":
            return key_words.widest(visit.verbs, visit.role)
        case _:
            return [f"{noun}:{what}" for noun, what in form.chosen.items()]


@dataclass(frozen=True, kw_only=True)
class RevokeContext:
    shown: ApiKeyShown
    typed: str = ""
    error: str = ""


def _live_key(visit: Visit, api_key_id: uuid.UUID) -> ApiKey:
    keys = ApiKey.objects.of(visit.tenant.id).select_related("created_by")
    key = keys.filter(pk=api_key_id, revoked_at__isnull=True).first()
    if key is None:
        raise Http404
    return key


@page("keys:write")
def ask_to_revoke(visit: Visit, api_key_id: uuid.UUID) -> HttpResponse:
    key = _live_key(visit, api_key_id)
    return visit.render("web/keys/_revoke_api.html", RevokeContext(shown=_shown(visit, key)))


@action("keys:write")
def revoke(visit: Visit, api_key_id: uuid.UUID) -> HttpResponse:
    key = _live_key(visit, api_key_id)
    typed = visit.request.POST.get("name", "").strip()
    if typed != key.name.strip():
        return visit.render(
            "web/keys/_revoke_api.html",
            RevokeContext(
                shown=_shown(visit, key),
                typed=typed[:80],
                error=_("This is not the name of the key."),
            ),
            status=422,
        )
    revoke_api_key(tenant_id=visit.tenant.id, key_id=key.pk, actor=visit.actor, now=visit.now)
    words = _("“%(name)s” is revoked: its next request is refused.")
    visit.toast(words % {"name": key.name})
    return visit.redirect(f"{visit.home}keys/api")


api_keys = by_method(show_api_keys, make_key)
revoke_key = by_method(ask_to_revoke, revoke)
