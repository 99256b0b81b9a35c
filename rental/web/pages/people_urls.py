"""Addresses of joining, of the person and of a tenant's people, projects and settings."""

from django.urls import path
from django.views.generic import RedirectView

from rental.web import converters, language  # noqa: F401  # registers <usr:…>
from rental.web.pages import console, invited, joining, me, projects, settings, team

T = "t/<slug:tenant>"

urlpatterns = [
    path("language", language.switch, name="set_language"),
    # --- coming in. The first and third take the place of allauth's forms, under their names.
    path("accounts/signup/", joining.start_sign_up, name="account_signup"),
    path("accounts/signup/code/", joining.finish_sign_up, name="signup_code"),
    path("accounts/password/reset/", joining.start_reset, name="account_reset_password"),
    path("accounts/password/reset/code/", joining.finish_reset, name="password_code"),
    path("join/code", invited.finish, name="invited_code"),
    path("join/<str:token>", invited.show, name="invited"),
    # allauth's own lists of addresses and sessions know less than /me.
    path("accounts/email/", RedirectView.as_view(pattern_name="me"), name="account_email"),
    path("accounts/sessions/", RedirectView.as_view(pattern_name="me")),
    # --- the person
    path("console", console.show_console, name="console"),
    path("console/new", console.open_tenant, name="no_tenant"),
    path("me", me.show, name="me"),
    path("me/contact", me.change_contact, name="me_contact"),
    path("me/contact/code", me.finish_contact, name="contact_code"),
    path("me/sessions/end", me.end_sessions, name="end_sessions"),
    # --- the tenant
    path(f"{T}/team", team.show, name="team"),
    path(f"{T}/team/invitations", team.invite, name="invite"),
    path(f"{T}/team/invitations/<inv:invitation_id>/revoke", team.revoke, name="revoke_invitation"),
    path(f"{T}/team/leave", team.leaving, name="leave"),
    path(f"{T}/team/<usr:user_id>/role", team.role_of_member, name="member_role"),
    path(f"{T}/team/<usr:user_id>/remove", team.removal_of_member, name="remove_member"),
    path(f"{T}/projects", projects.listing, name="projects"),
    path(f"{T}/projects/<prj:project_id>/name", projects.name_of_project, name="rename_project"),
    path(f"{T}/projects/<prj:project_id>/default", projects.make_default, name="default_project"),
    path(f"{T}/settings", settings.settings_of_tenant, name="settings"),
    path(f"{T}/first-steps/dismiss", team.dismiss_steps, name="dismiss_steps"),
]
