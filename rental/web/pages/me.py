"""The person himself: name, language, contacts, password, second factor, sessions, consents."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.core.exceptions import ValidationError
from django.forms import Form
from django.http import HttpResponse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from rental.tenants import queries, services
from rental.tenants.contacts import Contact
from rental.tenants.errors import BadCode, EmailOrPhoneTaken, TooManyCodes
from rental.tenants.models import Consent, ContactCode
from rental.tenants.services.sessions import end_other_sessions, sessions_of
from rental.web.browsers import name_browser
from rental.web.forms.joining import CodeForm
from rental.web.forms.me import NameForm, NewContactForm
from rental.web.pages.joining import too_many, use, words_of
from rental.web.person import Person, personal

PENDING = "contact"  # what waits in the session for its code
CONTACT = ContactCode.Purpose.CONTACT


@dataclass(frozen=True)
class SessionRow:
    browser: str
    address: str
    since: datetime
    is_here: bool


@dataclass(frozen=True)
class MePage:
    """``factors``: kinds of second factor that are set up."""

    name_form: NameForm
    places: list[queries.Place]
    factors: list[str]
    sessions: list[SessionRow]
    consents: list[Consent]
    verifies: bool


@personal("GET", "POST")
def show(person: Person) -> HttpResponse:
    """Show everything; POST changes name and language."""
    user = person.user
    # Not vars(user): the request's user is a lazy object, whose own dictionary has neither.
    kept = {"name": user.name, "language": user.language or get_language()}
    form = NameForm(person.request.POST or None, initial=kept)
    if form.is_valid():
        services.rename_user(user=user, name=form.cleaned_data["name"].strip())
        services.set_language(user=user, language=form.cleaned_data["language"])
        person.toast(_("Saved."))
        response = person.redirect("me")
        response.set_cookie(
            settings.LANGUAGE_COOKIE_NAME, user.language, samesite="Lax", secure=settings.HTTPS
        )
        return response
    page = MePage(
        name_form=form,
        places=queries.tenants_of(user),
        factors=list(Authenticator.objects.filter(user=user).values_list("type", flat=True)),
        sessions=_sessions(person),
        consents=list(Consent.objects.filter(user=user).order_by("-at")),
        verifies=settings.SIGNUP_VERIFICATION == "code",
    )
    return person.render("web/me/me.html", page, status=422 if form.is_bound else 200)


def _sessions(person: Person) -> list[SessionRow]:
    here = person.request.session.session_key
    return [
        SessionRow(name_browser(row.user_agent), row.ip, row.created_at, row.session_key == here)
        for row in sessions_of(person.user, now=person.now)
    ]


@personal("GET", "POST")
def change_contact(person: Person) -> HttpResponse:
    """Ask for another address or number, or to prove the present one."""
    typed: Any = person.request.POST or None
    form = NewContactForm(typed, initial={"contact": person.request.GET.get("contact", "")})
    if form.is_valid() and _is_he(person, form):
        contact: Contact = form.cleaned_data["contact"]
        if settings.SIGNUP_VERIFICATION == "code":
            return _ask_for_code(person, contact)
        if _set(person, form, "contact", contact, is_verified=False):
            person.toast(_("You can sign in with %s from now on.") % contact)
            return person.redirect("me")
    page = {"form": form, "verifies": settings.SIGNUP_VERIFICATION == "code"}
    return person.render("web/me/contact.html", page, status=422 if form.is_bound else 200)


def _is_he(person: Person, form: Form) -> bool:
    """Who finds an open browser changes no way in; wrong words count as failed log-ins."""
    try:
        if get_adapter().reauthenticate(person.user, form.cleaned_data["password"]):
            return True
        form.add_error("password", _("This is not your password."))
    except ValidationError as error:  # too many failures
        form.add_error("password", error)
    return False


def _ask_for_code(person: Person, contact: Contact) -> HttpResponse:
    try:
        services.make_code(contact=contact, purpose=CONTACT, now=person.now)
    except TooManyCodes:
        return too_many(person.request)
    person.request.session[PENDING] = [contact.kind, contact.value]
    return person.redirect("contact_code")


@personal("GET", "POST")
def finish_contact(person: Person) -> HttpResponse:
    """Take the code that proves the new contact."""
    if not (kept := person.request.session.get(PENDING)):
        return person.redirect("me_contact")
    contact = Contact(*kept)
    if "again" in person.request.POST:
        return _ask_for_code(person, contact)
    form = CodeForm(person.request.POST or None)
    if form.is_valid():
        try:
            use(contact, CONTACT, form.cleaned_data["code"])
        except BadCode as error:
            form.add_error("code", words_of(error))
        else:
            if _set(person, form, "code", contact, is_verified=True):
                del person.request.session[PENDING]
                person.toast(_("You can sign in with %s from now on.") % contact)
                return person.redirect("me")
    page = {"form": form, "contact": contact}
    return person.render("web/me/contact_code.html", page, status=422 if form.is_bound else 200)


def _set(person: Person, form: Form, field: str, contact: Contact, *, is_verified: bool) -> bool:
    try:
        services.set_contact(
            user=person.user, contact=contact, is_verified=is_verified, now=person.now
        )
    except EmailOrPhoneTaken:
        form.add_error(field, _("This cannot be used: another account has it."))
        return False
    return True


@personal("POST")
def end_sessions(person: Person) -> HttpResponse:
    """Sign out everywhere but here."""
    ended = end_other_sessions(person.user, keep=person.request.session.session_key)
    person.toast(_("Signed out of %d other browsers.") % ended)
    return person.redirect("me")
