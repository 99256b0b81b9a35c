"""The audit log: with the change or not at all, never edited, one partition a month."""

import uuid
from datetime import UTC, date, datetime

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, transaction

from rental.records import context, partitions
from rental.records.append_only import AppendOnly, append_only_models
from rental.records.audit import Actor, record_event
from rental.records.models import AuditEvent

NOON = datetime(2041, 3, 2, 12, 0, tzinfo=UTC)  # far from the months that migrating makes
TENANT = uuid.UUID(int=1)
ANN = Actor(kind="user", id="usr_ann")


def record(**facts):
    values = {
        "tenant_id": TENANT,
        "actor": ANN,
        "verb": "ssh_key.added",
        "subject": "ssh_1",
        "before": None,
        "after": {"name": "laptop"},
        "request_id": None,
        "now": NOON,
    }
    record_event(**values | facts)


def partition_of(event):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tableoid::regclass::text FROM tenants_auditevent WHERE id = %s", [event.pk]
        )
        return cursor.fetchone()[0]


@pytest.mark.django_db
def test_an_event_says_who_what_and_when():
    record(request_id="req_7", before={"name": "old"})

    event = AuditEvent.objects.of(TENANT).get()
    assert (event.actor_kind, event.actor_id) == ("user", "usr_ann")
    assert (event.verb, event.subject, event.at) == ("ssh_key.added", "ssh_1", NOON)
    assert (event.before, event.after) == ({"name": "old"}, {"name": "laptop"})
    assert (event.request_id, event.hash) == ("req_7", None)


@pytest.mark.django_db
def test_the_request_id_comes_from_the_log_context():
    with context.bound(request_id="req_8"):
        record()

    assert AuditEvent.objects.get().request_id == "req_8"


@pytest.mark.django_db(transaction=True)
def test_an_event_outside_of_a_transaction_is_a_bug():
    with pytest.raises(RuntimeError, match=r"ssh_key\.added is audited outside"):
        record()
    assert not AuditEvent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tenants_auditevent SET verb = 'x'",
        "DELETE FROM tenants_auditevent",
        "UPDATE tenants_auditevent_default SET verb = 'x'",
        "DELETE FROM tenants_auditevent_default",
    ],
)
def test_an_event_is_never_changed_even_by_the_owner(change):
    record()
    before = list(AuditEvent.objects.values())

    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)

    assert list(AuditEvent.objects.values()) == before


@pytest.mark.django_db
def test_a_month_is_made_once_and_takes_the_events_of_its_utc_month():
    made = partitions.make_audit_months(now=NOON)

    assert made == [date(2041, 3, 1), date(2041, 4, 1), date(2041, 5, 1), date(2041, 6, 1)]
    assert partitions.make_audit_months(now=NOON) == []
    # a row on each side of the border
    first, last = datetime(2041, 4, 1, tzinfo=UTC), datetime(2041, 3, 31, 23, 59, 59, tzinfo=UTC)
    record(now=first, subject="first")
    record(now=last, subject="last")
    record(now=datetime(2041, 7, 1, tzinfo=UTC), subject="later")
    found = {event.subject: partition_of(event) for event in AuditEvent.objects.all()}
    assert found == {
        "first": "tenants_auditevent_2041_04",
        "last": "tenants_auditevent_2041_03",
        "later": "tenants_auditevent_default",
    }
    with pytest.raises(DatabaseError), transaction.atomic():
        AuditEvent.objects.filter(subject="first").update(verb="x")


@pytest.mark.django_db
def test_a_month_whose_events_lie_in_the_default_partition_is_left_there():
    record()

    made = partitions.make_audit_months(now=NOON)

    assert made == [date(2041, 4, 1), date(2041, 5, 1), date(2041, 6, 1)]
    assert partition_of(AuditEvent.objects.get()) == "tenants_auditevent_default"


def test_months_roll_over_the_year():
    december = datetime(2026, 12, 31, 23, tzinfo=UTC)

    assert [partitions.month_of(december, later=n) for n in (0, 1, 12, 13)] == [
        date(2026, 12, 1),
        date(2027, 1, 1),
        date(2027, 12, 1),
        date(2028, 1, 1),
    ]


@pytest.mark.django_db
def test_every_append_only_table_has_its_triggers_in_the_database():
    models = append_only_models()
    assert AuditEvent in models

    for model in models:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass",
                [model._meta.db_table],
            )
            names = " ".join(row[0] for row in cursor.fetchall())
        assert "rows_are_never_changed" in names, model
        assert "rows_are_never_deleted" in names, model


def test_an_append_only_model_without_its_triggers_fails_the_check():
    class Bare(AppendOnly):
        class Meta:
            app_label = "tenants"

    try:
        problems = [problem.id for problem in Bare.check()]
    finally:
        del apps.all_models["tenants"]["bare"]
        apps.clear_cache()

    assert "records.E001" in problems
