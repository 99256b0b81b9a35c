"""The operator's pages: who gets in, what is read-only, and that actions call services."""

import pytest
from django.contrib import admin

from rental.records.ids import to_text
from rental.records.models import AuditEvent
from rental.tenants.models import ApiKey, Membership, StaffRole, Tenant, User
from tests.factories.tenants import make_api_key, make_tenant, make_user

pytestmark = pytest.mark.django_db

OURS = [model for model in admin.site._registry if model._meta.app_label == "tenants"]


def staff_with(*verbs, **fields):
    user = make_user(is_staff=True, **fields)
    user.staff_roles.add(
        StaffRole.objects.create(code=f"r{user.pk.hex[:8]}", name="Role", verbs=list(verbs))
    )
    return user


@pytest.fixture
def boss(client):
    user = make_user(is_staff=True, is_superuser=True)
    client.force_login(user)
    return user


def url(model, *rest):
    return "/".join(["/admin/tenants", model._meta.model_name, *rest, ""])


def test_every_list_opens(client, boss):
    make_api_key(make_tenant())

    for model in OURS:
        answer = client.get(url(model))
        assert answer.status_code == 200, model
        found = model.objects.first()
        if found is not None:
            assert client.get(url(model, str(found.pk), "change")).status_code == 200, model


def test_a_person_leads_to_his_tenants(client, boss):
    user = make_user()
    tenant = make_tenant(name="Acme", owner=user)

    page = client.get(url(User, str(user.pk), "change")).content.decode()

    assert f'href="{url(Tenant, str(tenant.pk), "change")}"' in page
    assert ">Acme</a>" in page


@pytest.mark.parametrize("typed", ["Acme", "ann@example.com", "13800000000"])
def test_a_tenant_is_found_by_who_belongs_to_it(client, boss, typed):
    tenant = make_tenant(
        name="Acme", slug="a", owner=make_user(email="ann@example.com", phone="+8613800000000")
    )
    make_tenant(name="Other", slug="other")

    answer = client.get(url(Tenant), {"q": typed})

    assert list(answer.context["cl"].queryset) == [tenant]


def test_a_digest_is_never_shown(client, boss):
    key, _ = make_api_key(make_tenant())

    page = client.get(url(ApiKey, str(key.pk), "change")).content.decode()

    assert key.prefix in page
    assert key.digest not in page


def test_members_without_a_role_and_customers_see_nothing(client):
    for user in (make_user(), make_user(is_staff=True), staff_with("billing:read")):
        client.force_login(user)
        for model in OURS:
            assert client.get(url(model)).status_code in {302, 403}, (user, model)


def test_only_users_and_staff_roles_can_be_changed_and_nothing_deleted(client, boss, rf):
    request = rf.get("/")
    request.user = boss

    changeable = {m for m in OURS if admin.site._registry[m].has_change_permission(request)}
    deletable = {m for m in OURS if admin.site._registry[m].has_delete_permission(request)}

    assert changeable == {User, StaffRole}
    assert deletable == set()


def test_a_tenant_is_made_by_the_service(client, boss):
    owner = make_user()

    answer = client.post(
        url(Tenant, "add"), {"name": "Acme", "slug": "acme", "owner": str(owner.pk)}
    )

    assert answer.status_code == 302
    tenant = Tenant.objects.get()
    assert Membership.objects.of(tenant.id).get().user == owner
    event = AuditEvent.objects.of(tenant.id).get()
    assert (event.verb, event.actor_kind) == ("tenant.created", "staff")
    assert event.actor_id == to_text("usr", boss.pk)


def act(client, model, action, row):
    return client.post(url(model), {"action": action, "_selected_action": [str(row.pk)]})


def test_suspending_is_an_action_and_audited(client, boss):
    tenant = make_tenant()

    act(client, Tenant, "suspend", tenant)

    tenant.refresh_from_db()
    assert tenant.status == "suspended"
    assert AuditEvent.objects.of(tenant.id).filter(verb="tenant.suspended").count() == 1


def test_who_may_only_read_can_neither_act_nor_add(client):
    tenant = make_tenant()
    key, _ = make_api_key(tenant)
    client.force_login(staff_with("tenants:read"))
    before = AuditEvent.objects.count()

    act(client, Tenant, "suspend", tenant)
    act(client, ApiKey, "revoke", key)
    added = client.post(url(Tenant, "add"), {"name": "X", "slug": "x", "owner": "1"})

    assert added.status_code == 403
    tenant.refresh_from_db()
    key.refresh_from_db()
    assert (tenant.status, key.revoked_at) == ("active", None)
    assert AuditEvent.objects.count() == before


def test_revoking_a_key_is_an_action(client, boss):
    key, _ = make_api_key(make_tenant())

    act(client, ApiKey, "revoke", key)

    key.refresh_from_db()
    assert key.revoked_at is not None
    assert AuditEvent.objects.filter(verb="api_key.revoked").count() == 1


NEW = {
    "email": "New@Example.com",
    "phone": "",
    "name": "New",
    "language": "en",
    "password1": "correct horse battery",
    "password2": "correct horse battery",
}


def test_a_user_is_made_and_audited_without_his_password(client, boss):
    answer = client.post(url(User, "add"), NEW)

    assert answer.status_code == 302, answer.context["errors"]
    user = User.objects.get(email="new@example.com")
    assert (user.phone, user.check_password("correct horse battery")) == (None, True)
    event = AuditEvent.objects.get(subject=to_text("usr", user.pk))
    assert (event.verb, event.actor_id) == ("user.created", to_text("usr", boss.pk))
    assert "password" not in str(event.after)


def test_a_user_without_address_and_phone_is_a_form_error(client, boss):
    answer = client.post(url(User, "add"), NEW | {"email": ""})

    assert answer.status_code == 200
    assert User.objects.count() == 1


def change(user, **fields):
    values = {
        "email": user.email or "",
        "phone": user.phone or "",
        "name": user.name,
        "language": user.language,
        "is_active": "on",
    }
    return values | fields


def test_staff_who_are_no_superusers_make_nobody_staff(client):
    clerk = staff_with("tenants:read", "tenants:write")
    customer = make_user()
    client.force_login(clerk)

    answer = client.post(
        url(User, str(customer.pk), "change"),
        change(customer, name="Renamed", is_staff="on", is_superuser="on"),
    )

    assert answer.status_code == 302
    customer.refresh_from_db()
    assert (customer.name, customer.is_staff, customer.is_superuser) == ("Renamed", False, False)


def test_staff_who_are_no_superusers_cannot_touch_staff(client):
    clerk = staff_with("tenants:read", "tenants:write")
    boss = make_user(is_staff=True, is_superuser=True, password="the old password")
    client.force_login(clerk)

    for victim in (boss, clerk):
        page = url(User, str(victim.pk), "change")
        assert client.post(page, change(victim, name="Mine")).status_code == 403
    passwords = {"password1": "correct horse battery", "password2": "correct horse battery"}
    answer = client.post(url(User, str(boss.pk), "password"), passwords)
    assert answer.status_code == 403
    roles = client.post(url(StaffRole, "add"), {"code": "x", "name": "x", "verbs": "*"})
    assert roles.status_code == 403

    boss.refresh_from_db()
    assert boss.check_password("the old password")
    assert boss.name == ""


def test_a_superuser_grants_roles_and_it_is_audited(client, boss):
    role = StaffRole.objects.create(code="till", name="Till", verbs=["billing:read"])
    user = make_user()

    answer = client.post(
        url(User, str(user.pk), "change"),
        change(user, is_staff="on", staff_roles=[str(role.pk)]),
    )

    assert answer.status_code == 302
    assert list(user.staff_roles.all()) == [role]
    event = AuditEvent.objects.get(verb="user.changed")
    assert event.before == {"is_staff": False, "staff_roles": []}
    assert event.after == {"is_staff": True, "staff_roles": ["Till"]}


def test_a_password_set_by_staff_is_audited_without_it(client, boss):
    user = make_user()
    passwords = {"password1": "correct horse battery", "password2": "correct horse battery"}

    answer = client.post(url(User, str(user.pk), "password"), passwords)

    assert answer.status_code == 302
    user.refresh_from_db()
    assert user.check_password("correct horse battery")
    event = AuditEvent.objects.get(verb="user.password_set")
    assert (event.subject, event.after) == (to_text("usr", user.pk), None)


def test_nobody_edits_how_others_prove_who_they_are(client, boss):
    """Second factors and proven addresses are their owner's; an edit of them is a way in."""
    for path in ("/admin/mfa/authenticator/", "/admin/account/emailaddress/"):
        assert client.get(path).status_code == 404
