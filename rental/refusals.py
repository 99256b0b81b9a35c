"""
Which expected failure of which floor becomes which answer: one row for each, nothing else.

The API and the console both read this table, so that a program and a person are told the same.
``field`` names the member of the input that is at fault.
"""

from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from billing import errors as billing
from rental.catalog import errors as catalog
from rental.instances import errors as instances
from rental.records import idempotency, ids, paging
from rental.records.texts import instant_text, money_text
from rental.tenants import errors as tenants
from rental.tenants.permissions import UnknownScope

# Stable codes and their titles; `/v1/docs` and docs/api.md list them, and a test compares.
CODES: dict[str, str | Promise] = {
    "malformed_request": _("The request could not be read"),
    "unauthenticated": _("A valid API key is required"),
    "insufficient_balance": _("The balance does not cover half an hour"),
    "in_arrears": _("There is an unpaid amount"),
    "forbidden": _("This key may not do that"),
    "not_found": _("There is nothing here"),
    "method_not_allowed": _("This method is not offered here"),
    "illegal_transition": _("The instance cannot do this in its state"),
    "locked": _("The instance is locked"),
    "protected": _("The instance is protected"),
    "password_login_off": _("Password log-in is off"),
    "in_use": _("Something still uses it"),
    "last_owner": _("A tenant keeps an owner"),
    "uniqueness_error": _("This already exists"),
    "idempotency_in_progress": _("The first request with this key is still running"),
    "precondition_failed": _("The resource has changed since it was read"),
    "content_too_large": _("The request is too large"),
    "unsupported_media_type": _("Send application/json"),
    "invalid_request": _("The request has invalid fields"),
    "idempotency_key_reused": _("The key was used for another request"),
    "unknown_offer": _("Nothing is on sale under this code"),
    "unknown_image": _("No image is offered under this code"),
    "market_not_offered": _("The offer is not sold on this market"),
    "image_does_not_fit": _("The image does not run on this GPU"),
    "unknown_quote": _("There is no such quote"),
    "quote_expired": _("The quote is no longer valid"),
    "quote_mismatch": _("The order is not what was quoted"),
    "unknown_project": _("There is no such project"),
    "unknown_ssh_key": _("There is no such SSH key"),
    "unknown_secret": _("There is no such secret"),
    "replace_not_offered": _("It cannot start elsewhere when its node is lost"),
    "price_exceeded": _("The price is above the given limit"),
    "resource_unavailable": _("This is not on sale"),
    "precondition_required": _("If-Match is required"),
    "rate_limit_exceeded": _("Too many requests"),
    "internal_error": _("An error on our side"),
    "unavailable": _("The service cannot answer at the moment"),
}

# Amounts inside errors are micro-units; outside they are decimal strings.
AMOUNTS = ("needed", "available", "amount", "price", "limit")
FACTS = ("state", "verb", "locks", "markets", "expected", "actual", "expired_at")


@dataclass(frozen=True)
class Row:
    """``words``: what people read where the error's own text speaks of micro-units."""

    status: int
    code: str
    field: str | None = None
    words: str | Promise | None = None


ANSWERS: dict[type[Exception], Row] = {
    ids.MalformedId: Row(404, "not_found"),
    paging.ForeignCursor: Row(
        422, "invalid_request", "cursor", _("This cursor does not belong to this list.")
    ),
    idempotency.IdempotencyInProgress: Row(409, "idempotency_in_progress"),
    idempotency.IdempotencyKeyReused: Row(422, "idempotency_key_reused"),
    # --- tenants
    UnknownScope: Row(422, "invalid_request", "scopes"),
    tenants.ScopeExceedsRole: Row(403, "forbidden", "scopes"),
    tenants.KeyNeverValid: Row(422, "invalid_request", "expires_at"),
    tenants.UnknownApiKey: Row(404, "not_found"),
    tenants.NotYourKey: Row(403, "forbidden", None, _("This key is another person's.")),
    tenants.MalformedSshKey: Row(422, "invalid_request", "public_key"),
    tenants.SshKeyExists: Row(409, "uniqueness_error", "public_key"),
    tenants.UnknownSshKey: Row(404, "not_found"),
    tenants.NotAMember: Row(403, "forbidden"),
    tenants.UnknownMember: Row(404, "not_found"),
    tenants.AlreadyAMember: Row(
        409, "uniqueness_error", "contact", _("This person is a member already.")
    ),
    tenants.LastOwner: Row(
        409, "last_owner", None, _("A tenant keeps an owner. Make somebody else one first.")
    ),
    tenants.OnlyAnOwner: Row(403, "forbidden", None, _("Who is an owner, only an owner decides.")),
    tenants.MalformedContact: Row(
        422,
        "invalid_request",
        "contact",
        _("Neither an e-mail address nor a mobile phone number."),
    ),
    tenants.TooManyCodes: Row(
        429, "rate_limit_exceeded", None, _("Too many codes. Try again in an hour.")
    ),
    tenants.UnknownInvitation: Row(404, "not_found"),
    tenants.SlugTaken: Row(409, "uniqueness_error", "slug", _("This short name is taken.")),
    tenants.MalformedSlug: Row(
        422, "invalid_request", "slug", _("Use a–z, 0–9 and inner hyphens, at most 40.")
    ),
    tenants.UnknownProject: Row(404, "not_found"),
    tenants.UnknownTimeZone: Row(
        422, "invalid_request", "time_zone", _("There is no such time zone.")
    ),
    # --- catalogue
    catalog.UnknownOffer: Row(422, "unknown_offer", "offer"),
    catalog.UnknownImage: Row(422, "unknown_image", "image"),
    catalog.MarketNotOffered: Row(422, "market_not_offered", "market"),
    catalog.ImageDoesNotFit: Row(422, "image_does_not_fit", "image"),
    catalog.OfferHasNoPrice: Row(409, "resource_unavailable", "offer"),
    catalog.BadCount: Row(422, "invalid_request", "count"),
    catalog.UnknownQuote: Row(422, "unknown_quote", "quote_id"),
    catalog.QuoteExpired: Row(409, "quote_expired", "quote_id"),
    catalog.QuoteMismatch: Row(422, "quote_mismatch", "quote_id"),
    catalog.PriceAboveLimit: Row(
        409, "price_exceeded", "max_hourly_price", _("The order costs more than the limit.")
    ),
    # --- billing
    billing.InsufficientBalance: Row(
        402, "insufficient_balance", None, _("The balance does not cover half an hour.")
    ),
    billing.TenantInArrears: Row(402, "in_arrears", None, _("There is an unpaid amount.")),
    # --- instances
    instances.UnknownInstance: Row(404, "not_found"),
    instances.UnknownProject: Row(422, "unknown_project", "project_id"),
    instances.UnknownSshKey: Row(422, "unknown_ssh_key", "ssh_key_ids"),
    instances.BadOrder: Row(422, "invalid_request"),
    instances.ReplaceNotOffered: Row(
        422,
        "replace_not_offered",
        "on_node_loss",
        _(
            "Its nodes have no guard yet that ends the old copy while a node is cut off; two copies"
            " would run. Leave it on “keep”."
        ),
    ),
    instances.UnknownSecret: Row(422, "unknown_secret", "secrets"),
    instances.SecretNotFound: Row(404, "not_found"),
    instances.SecretInUse: Row(409, "in_use"),
    instances.SecretsNotSetUp: Row(503, "unavailable"),
    instances.SecretUnreadable: Row(
        503, "unavailable", None, _("It cannot be read here; the operator has to look.")
    ),
    instances.PasswordLoginOff: Row(409, "password_login_off"),
    instances.GenerationMismatch: Row(412, "precondition_failed"),
    instances.NotPossibleNow: Row(409, "illegal_transition"),
    instances.IllegalTransition: Row(409, "illegal_transition"),
    instances.InstanceProtected: Row(409, "protected"),
    instances.InstanceLocked: Row(409, "locked"),
}


def row_of(exc: Exception) -> Row | None:
    """Return the row of the error's class or of the nearest class that it comes from."""
    return next((ANSWERS[kind] for kind in type(exc).__mro__ if kind in ANSWERS), None)


def field_of(exc: Exception, row: Row) -> str | None:
    """Return the member at fault; an order names it itself."""
    return exc.field if isinstance(exc, instances.BadOrder) else row.field


def facts_of(exc: Exception) -> dict[str, Any]:
    """Return what an error knows and a program can use, as further members of the problem."""
    found: dict[str, Any] = {}
    for name in AMOUNTS:
        if isinstance(value := getattr(exc, name, None), int):
            found[name] = money_text(value)
    for name in FACTS:
        value = getattr(exc, name, None)
        if value is not None and not callable(value):
            found[name] = instant_text(value) if hasattr(value, "tzinfo") else value
    return found


@dataclass(frozen=True)
class Refusal:
    """What to tell of an expected failure. ``field``: the member of the input that is at fault."""

    status: int
    code: str
    words: str
    field: str | None = None

    @property
    def title(self) -> str:
        """What happened in a few words: the heading above ``words``."""
        return str(CODES[self.code])


def refusal_of(exc: Exception) -> Refusal | None:
    """Return what to tell of ``exc``; None if nobody expected it, so that it stays a bug."""
    row = row_of(exc)
    if row is None:
        return None
    return Refusal(row.status, row.code, str(row.words or exc), field_of(exc, row))
