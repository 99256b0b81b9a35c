"""Coming in: sign-up, the code that proves a contact, a forgotten password. For everybody."""

from typing import Any

from allauth.account.internal.flows.login import record_authentication
from allauth.account.utils import perform_login
from allauth.core import ratelimit
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.hashers import make_password
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from rental.records.clock import database_now
from rental.tenants import services
from rental.tenants.contacts import Contact
from rental.tenants.errors import BadCode, EmailOrPhoneTaken, TooManyCodes
from rental.tenants.models import ContactCode, User
from rental.tenants.services.sessions import end_other_sessions
from rental.web.forms.joining import CodeForm, ContactForm, NewPasswordForm, SignUpForm
from rental.web.signup import Wanted, sign_up

BACKEND = "django.contrib.auth.backends.ModelBackend"
# What waits in the session for its code.
PENDING, FORGOTTEN = "signup", "forgotten"
AFTER = "signup_next"  # the page that asked for the sign-up
Purpose = ContactCode.Purpose


def open_page(view: Any) -> Any:
    """Serve GET and POST to everybody; keep it out of caches and passwords out of reports."""
    guarded = require_http_methods(["GET", "HEAD", "POST"])(never_cache(view))
    return sensitive_post_parameters("password", "code")(guarded)


# --- sign-up


@open_page
def start_sign_up(request: HttpRequest) -> HttpResponse:
    """Ask for a contact, a password and the name of the organization."""
    if request.user.is_authenticated:
        return redirect("console")
    if not settings.SIGNUP_ENABLED:
        return render(request, "web/joining/closed.html", status=404)
    form = SignUpForm(request.POST or None, terms=settings.SIGNUP_TERMS_URL)
    if request.method != "POST" or not form.is_valid():
        return _draw_sign_up(request, form)
    if not ratelimit.consume(request, action="signup"):
        return too_many(request)
    wanted = Wanted(
        contact=form.cleaned_data["contact"],
        password_hash=make_password(form.cleaned_data["password"]),
        organization=form.cleaned_data["organization"].strip(),
        language=get_language() or settings.LANGUAGE_CODE,
        agrees=form.cleaned_data.get("agrees", False),
    )
    if settings.SIGNUP_VERIFICATION == "code":
        return _ask_for_code(request, wanted)
    try:
        user, tenant = sign_up(wanted, is_verified=False, now=database_now())
    except EmailOrPhoneTaken:
        # Without a proof of the contact there is no way to say it to its owner alone.
        form.add_error("contact", _("This cannot be used. If it is yours, sign in instead."))
        return _draw_sign_up(request, form)
    return enter(request, user, tenant, to=safe_next(request, ""))


def _draw_sign_up(request: HttpRequest, form: SignUpForm) -> HttpResponse:
    context = {
        "form": form,
        "terms_url": settings.SIGNUP_TERMS_URL,
        "trial": settings.SIGNUP_TRIAL_CREDIT,
    }
    status = 422 if form.is_bound else 200
    return render(request, "web/joining/sign_up.html", context, status=status)


def _ask_for_code(request: HttpRequest, wanted: Wanted) -> HttpResponse:
    """A contact that has an account gets a code too: nobody learns here that it has."""
    try:
        services.make_code(contact=wanted.contact, purpose=Purpose.SIGN_UP, now=database_now())
    except TooManyCodes:
        return too_many(request)
    request.session[PENDING] = pack(wanted)
    request.session[AFTER] = safe_next(request, request.session.get(AFTER, ""))
    return redirect("signup_code")


@open_page
def finish_sign_up(request: HttpRequest) -> HttpResponse:
    """Take the code; make the account."""
    wanted = unpack(request.session.get(PENDING))
    if wanted is None:
        return redirect("account_signup")
    if "again" in request.POST:
        return _ask_for_code(request, wanted)
    form = CodeForm(request.POST or None)
    if form.is_valid():
        now = database_now()
        try:
            use(wanted.contact, Purpose.SIGN_UP, form.cleaned_data["code"])
            entered = sign_up(wanted, is_verified=True, now=now)
        except BadCode as error:
            form.add_error("code", words_of(error))
        except EmailOrPhoneTaken:
            # Told to whoever has just proved that it is his.
            del request.session[PENDING]
            form.add_error("code", _("You have an account already: sign in with it."))
        else:
            del request.session[PENDING]
            return enter(request, *entered, to=request.session.pop(AFTER, ""))
    context = {"form": form, "contact": wanted.contact}
    status = 422 if form.is_bound else 200
    return render(request, "web/joining/code.html", context, status=status)


# --- a forgotten password


@open_page
def start_reset(request: HttpRequest) -> HttpResponse:
    """Ask for the contact; a code goes out, whether or not somebody has it."""
    form = ContactForm(request.POST or None)
    if form.is_valid():
        contact: Contact = form.cleaned_data["contact"]
        if not ratelimit.consume(request, action="reset_password", key=contact.value):
            return too_many(request)
        return _send_reset(request, contact)
    status = 422 if form.is_bound else 200
    return render(request, "web/joining/forgotten.html", {"form": form}, status=status)


def _send_reset(request: HttpRequest, contact: Contact) -> HttpResponse:
    try:
        services.make_code(contact=contact, purpose=Purpose.PASSWORD, now=database_now())
    except TooManyCodes:
        return too_many(request)
    request.session[FORGOTTEN] = [contact.kind, contact.value]
    return redirect("password_code")


@open_page
def finish_reset(request: HttpRequest) -> HttpResponse:
    """Take the code and the new password; sign in."""
    if not (kept := request.session.get(FORGOTTEN)):
        return redirect("account_reset_password")
    contact = Contact(*kept)
    if "again" in request.POST:
        return _send_reset(request, contact)
    form = NewPasswordForm(request.POST or None, contact=contact)
    if form.is_valid():
        try:
            use(contact, Purpose.PASSWORD, form.cleaned_data["code"])
        except BadCode as error:
            form.add_error("code", words_of(error))
        else:
            del request.session[FORGOTTEN]
            return _set_password(request, contact, form.cleaned_data["password"])
    context = {"form": form, "contact": contact}
    status = 422 if form.is_bound else 200
    return render(request, "web/joining/new_password.html", context, status=status)


def _set_password(request: HttpRequest, contact: Contact, password: str) -> HttpResponse:
    user = services.find_user(contact)
    if user is None or not user.is_active:
        # Told to whoever has just proved that the contact is his.
        return render(request, "web/joining/no_account.html", {"contact": contact}, status=404)
    services.reset_password(user=user, contact=contact, password=password, now=database_now())
    end_other_sessions(user, keep=None)
    user.refresh_from_db()
    messages.success(request, _("The new password is set."))
    return enter(request, user, None)


# --- shared with invitations (pages/invited.py) and /me


def enter(request: HttpRequest, user: User, tenant: Any, *, to: str = "") -> HttpResponse:
    """Sign the person in, past his second factor, and go to ``to`` or to his tenant."""
    user.backend = BACKEND
    record_authentication(request, user, method="password")
    if not to:
        to = f"/t/{tenant.slug}/" if tenant else "/console"
    response: HttpResponse = perform_login(request, user, redirect_url=to)
    return response


def use(contact: Contact, purpose: Purpose, code: str) -> None:
    """:raises BadCode: see rental.tenants.services.use_code"""
    services.use_code(contact=contact, purpose=purpose, code=code, now=database_now())


def words_of(error: BadCode) -> str:
    """Say what is wrong with the code and what to do."""
    if error.reason == "wrong":
        return _("This is not the code. Look at the digits again.")
    if error.reason == "tried_too_often":
        return _("This code was tried too often. Ask for a new one.")
    return _("This code is not valid any more. Ask for a new one.")


def too_many(request: HttpRequest) -> HttpResponse:
    return render(request, "429.html", status=429)


def pack(wanted: Wanted) -> dict[str, Any]:
    facts = vars(wanted) | {"contact": [wanted.contact.kind, wanted.contact.value]}
    return dict(facts)


def unpack(kept: dict[str, Any] | None) -> Wanted | None:
    if not kept:
        return None
    return Wanted(**(kept | {"contact": Contact(*kept["contact"])}))


def safe_next(request: HttpRequest, fallback: str) -> str:
    """Return where the page's ``next`` leads if that is one of our own pages."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}):
        return wanted
    return fallback
