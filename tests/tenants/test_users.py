"""Users: reached by e-mail or phone, in any case of letters, and what staff roles allow."""

from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.auth import authenticate
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models.functions import Upper

from rental.records.models import AuditEvent
from rental.tenants import services
from rental.tenants.errors import EmailOrPhoneTaken
from rental.tenants.models import Consent, StaffRole, User
from tests.factories.tenants import NOON, OPERATOR, make_user

pytestmark = pytest.mark.django_db


def create(**fields):
    return services.create_user(actor=OPERATOR, now=NOON, **fields)


def test_an_address_is_one_address_in_any_case():
    user = create(email=" Ann@Example.COM")

    assert user.email == "ann@example.com"
    assert User.objects.get(email="ANN@example.com") == user
    with pytest.raises(EmailOrPhoneTaken):
        create(email="aNN@example.com")
    assert User.objects.count() == 1
    assert AuditEvent.objects.filter(verb="user.created").count() == 1


def test_a_phone_alone_is_enough_and_is_one_too():
    user = create(phone="+8613800000000", password="correct horse")

    assert (user.email, user.get_username()) == (None, "+8613800000000")
    with pytest.raises(EmailOrPhoneTaken):
        create(phone="+8613800000000")
    create(phone="+8613800000001")  # two users without an e-mail address
    assert User.objects.count() == 2


def test_neither_is_refused_by_the_manager_and_by_the_database():
    with pytest.raises(ValueError, match="e-mail address or a phone"):
        create()
    with pytest.raises(IntegrityError, match="user_has_email_or_phone"), transaction.atomic():
        User.objects.create(name="nobody")
    assert not User.objects.exists()
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize("phone", ["13800000000", "+0123456789", "+86 138", "+1234567890123456"])
def test_a_phone_in_another_form_is_refused(phone):
    with pytest.raises(DatabaseError), transaction.atomic():
        User.objects.create(phone=phone)
    assert not User.objects.exists()


def test_upper_case_cannot_get_past_the_database():
    user = make_user(email="ann@example.com")

    with pytest.raises(IntegrityError, match="user_email_is_lower_case"), transaction.atomic():
        User.objects.filter(pk=user.pk).update(email=Upper("email"))  # goes round the field


def test_log_in_by_address_in_any_case_or_by_phone():
    user = create(email="ann@example.com", phone="+8613800000000", password="correct horse")

    assert authenticate(username="ANN@example.com", password="correct horse") == user
    assert authenticate(username="+8613800000000", password="correct horse") == user
    assert authenticate(username="ann@example.com", password="wrong") is None
    assert authenticate(username="", password="") is None


def test_without_a_password_nothing_logs_in():
    create(email="ann@example.com")

    assert authenticate(username="ann@example.com", password="") is None
    assert authenticate(username="ann@example.com", password="None") is None


def test_staff_roles_are_data():
    user = make_user(is_staff=True)
    user.staff_roles.add(
        StaffRole.objects.create(code="till", name="Till", verbs=["billing:read"]),
        StaffRole.objects.create(code="giver", name="Giver", verbs=["billing:credit"]),
    )

    assert user.has_perm("billing.view_wallet")
    assert not user.has_perm("billing.change_wallet")
    assert user.has_staff_verb("billing:credit")
    assert user.has_module_perms("billing")
    assert not user.has_module_perms("scheduler")


@pytest.mark.parametrize("fields", [{"is_staff": False}, {"is_active": False}])
def test_a_role_is_nothing_without_being_active_staff(fields):
    user = make_user(is_staff=True)
    user.staff_roles.add(StaffRole.objects.create(code="all", name="All", verbs=["*"]))
    assert user.has_staff_verb("billing:credit")

    for name, value in fields.items():
        setattr(user, name, value)

    assert not user.has_staff_verb("billing:credit")
    assert not user.has_perm("billing.view_wallet")


def test_a_new_deployment_has_three_roles():
    StaffRole.objects.all().delete()  # other tests may have emptied the table
    import_module("rental.tenants.migrations.0003_staff_roles").add_roles(apps, None)

    assert set(StaffRole.objects.values_list("code", flat=True)) >= {
        "support",
        "finance",
        "operator",
    }


def test_consent_is_kept_once_a_version_and_never_changed():
    user = make_user()

    for version in ("1", "1", "2"):
        services.record_consent(user=user, document="terms", version=version, now=NOON)

    rows = Consent.objects.order_by("version").values_list("document", "version", "at")
    assert list(rows) == [("terms", "1", NOON), ("terms", "2", NOON)]
    assert AuditEvent.objects.filter(verb="consent.given").count() == 2
    with pytest.raises(DatabaseError), transaction.atomic():
        Consent.objects.update(version="3")
    with pytest.raises(DatabaseError), transaction.atomic():
        Consent.objects.all().delete()
    assert Consent.objects.count() == 2
