"""The page behind an invitation's link, for who is signed in and for who is new."""

from dataclasses import dataclass
from typing import Any

from allauth.core import ratelimit
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from rental.records.clock import database_now
from rental.tenants import services
from rental.tenants.contacts import Contact
from rental.tenants.errors import (
    AlreadyAMember,
    BadCode,
    EmailOrPhoneTaken,
    InvitationOver,
    InvitedSomebodyElse,
    TooManyCodes,
    UnknownInvitation,
)
from rental.tenants.models import ContactCode, Invitation, Role, User
from rental.tenants.services.invitations import contact_of
from rental.web.forms.joining import CodeForm, JoinForm
from rental.web.pages.joining import enter, open_page, pack, too_many, unpack, use, words_of
from rental.web.roles import ROLE_WORDS
from rental.web.signup import Wanted, join

PENDING = "invited"
SIGN_UP = ContactCode.Purpose.SIGN_UP


@dataclass(frozen=True)
class InvitedPage:
    """``masked``: for whom it is; ``has_account``: such a contact signs in already."""

    invitation: Invitation
    token: str
    role: Any
    masked: str
    is_yours: bool = False
    has_account: bool = False
    form: JoinForm | None = None
    terms_url: str = ""


@open_page
def show(request: HttpRequest, token: str) -> HttpResponse:
    """Show what the link opens; POST takes the place."""
    try:
        invitation = services.find_invitation(token=token, now=database_now())
        if isinstance(request.user, User):
            return _show_to_user(request, request.user, invitation, token)
        return _show_to_stranger(request, invitation, token)
    except (UnknownInvitation, InvitationOver) as error:
        return over(request, error)


def _page(invitation: Invitation, token: str, **facts: Any) -> dict[str, Any]:
    role = ROLE_WORDS[Role(invitation.role)]
    masked = contact_of(invitation).masked
    return {"page": InvitedPage(invitation, token, role, masked, **facts)}


def _show_to_user(
    request: HttpRequest, user: User, invitation: Invitation, token: str
) -> HttpResponse:
    is_yours = invitation.contact in (user.email, user.phone)
    context = _page(invitation, token, is_yours=is_yours, has_account=True)
    if request.method != "POST":
        return render(request, "web/joining/invited.html", context)
    try:
        services.accept_invitation(token=token, user=user, now=database_now())
    except InvitedSomebodyElse:
        return render(request, "web/joining/invited.html", context, status=403)
    except AlreadyAMember:
        pass  # where he wants to be
    return redirect(f"/t/{invitation.tenant.slug}/")


def _show_to_stranger(request: HttpRequest, invitation: Invitation, token: str) -> HttpResponse:
    contact = contact_of(invitation)
    if services.find_user(contact) is not None:
        context = _page(invitation, token, has_account=True)
        return render(request, "web/joining/invited.html", context)
    form = JoinForm(request.POST or None, terms=settings.SIGNUP_TERMS_URL, contact=contact)
    if form.is_valid():
        if not ratelimit.consume(request, action="signup"):
            return too_many(request)
        return _make_account(request, form, contact, token)
    context = _page(invitation, token, form=form, terms_url=settings.SIGNUP_TERMS_URL)
    status = 422 if form.is_bound else 200
    return render(request, "web/joining/invited.html", context, status=status)


def _make_account(
    request: HttpRequest, form: JoinForm, contact: Contact, token: str
) -> HttpResponse:
    wanted = Wanted(
        contact=contact,
        password_hash=make_password(form.cleaned_data["password"]),
        language=get_language() or settings.LANGUAGE_CODE,
        agrees=form.cleaned_data.get("agrees", False),
    )
    if settings.SIGNUP_VERIFICATION == "code":
        return _ask_for_code(request, wanted, token)
    try:
        entered = join(wanted, token=token, is_verified=False, now=database_now())
    except EmailOrPhoneTaken:  # made in another window meanwhile: the page asks to sign in now
        return redirect("invited", token=token)
    return enter(request, *entered)


def _ask_for_code(request: HttpRequest, wanted: Wanted, token: str) -> HttpResponse:
    try:
        services.make_code(contact=wanted.contact, purpose=SIGN_UP, now=database_now())
    except TooManyCodes:
        return too_many(request)
    request.session[PENDING] = {"wanted": pack(wanted), "token": token}
    return redirect("invited_code")


@open_page
def finish(request: HttpRequest) -> HttpResponse:
    """Take the code; make the account in the tenant that invited."""
    kept = request.session.get(PENDING) or {}
    wanted = unpack(kept.get("wanted"))
    if wanted is None:
        return redirect("account_login")
    if "again" in request.POST:
        return _ask_for_code(request, wanted, kept["token"])
    form = CodeForm(request.POST or None)
    if form.is_valid():
        try:
            use(wanted.contact, SIGN_UP, form.cleaned_data["code"])
            entered = join(wanted, token=kept["token"], is_verified=True, now=database_now())
        except BadCode as error:
            form.add_error("code", words_of(error))
        except EmailOrPhoneTaken:
            form.add_error("code", _("You have an account already: sign in with it."))
        except (UnknownInvitation, InvitationOver) as error:
            return over(request, error)
        else:
            del request.session[PENDING]
            return enter(request, *entered)
    context = {"form": form, "contact": wanted.contact}
    status = 422 if form.is_bound else 200
    return render(request, "web/joining/code.html", context, status=status)


def over(request: HttpRequest, error: Exception) -> HttpResponse:
    """Say that the link opens nothing, and why."""
    reason = getattr(error, "reason", "unknown")
    status = 404 if reason == "unknown" else 410
    return render(request, "web/joining/invitation_over.html", {"reason": reason}, status=status)
