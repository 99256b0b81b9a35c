"""Role grants, tried as the roles themselves on real tables."""

from contextlib import contextmanager
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from rental.records import grants
from rental.records.append_only import append_only_models
from rental.records.partitions import make_audit_months

# Roles belong to the whole server, which other suites use too; the transaction takes them back.
APP, READER = "test_grants_app", "test_grants_reader"
NOON = datetime(2041, 3, 2, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def sql(statement, *values):
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def roles():
    for role in (APP, READER):
        sql(f"CREATE ROLE {role} NOLOGIN")
    grants.grant_roles(app=APP, reader=READER)


@contextmanager
def acting_as(role):
    """After a failure the rollback to the savepoint resets the role; nothing else could."""
    sql(f"SET LOCAL ROLE {role}")
    yield
    sql("RESET ROLE")


def refused(role, statement):
    """Say whether the statement fails for want of privilege."""
    try:
        with transaction.atomic(), acting_as(role):
            sql(statement)
    except DatabaseError as error:
        return "permission denied" in str(error)
    return False


def test_the_app_inserts_and_reads_but_never_rewrites_what_is_append_only(roles):
    tables = grants.append_only_tables()
    assert "tenants_auditevent_default" in tables  # partitions are covered
    assert {model._meta.db_table for model in append_only_models()} <= tables

    for table in sorted(tables):
        name = connection.ops.quote_name(table)
        assert refused(APP, f"DELETE FROM {name}"), table
        assert refused(APP, f"TRUNCATE {name}"), table
        column = sql(
            "SELECT attname FROM pg_attribute WHERE attrelid=%s::regclass AND attnum=1", name
        )[0][0]
        assert refused(APP, f'UPDATE {name} SET "{column}" = "{column}"'), table
        with acting_as(APP):
            sql(f"SELECT * FROM {name} LIMIT 1")
        assert sql("SELECT has_table_privilege(%s, %s, 'INSERT')", APP, name) == [(True,)]


def test_the_app_works_with_other_tables_and_cannot_truncate_or_drop_them(roles):
    with acting_as(APP):
        sql("INSERT INTO tenants_periodicrun (name, slot) VALUES ('a', now())")  # its sequence too
        sql("UPDATE tenants_periodicrun SET name = 'b'")
        sql("DELETE FROM tenants_periodicrun")

    for statement in (
        "TRUNCATE tenants_periodicrun",
        "DROP TABLE tenants_periodicrun",
        "ALTER TABLE tenants_periodicrun DISABLE TRIGGER ALL",
        "CREATE TABLE mine (id int)",
        "DELETE FROM django_migrations",
    ):
        with pytest.raises(DatabaseError), transaction.atomic(), acting_as(APP):
            sql(statement)


def test_the_app_makes_the_audit_months_that_it_cannot_rewrite(roles):
    with acting_as(APP):
        assert len(make_audit_months(now=NOON)) == 4

    assert refused(APP, "DELETE FROM tenants_auditevent_2041_03")
    assert refused(APP, "UPDATE tenants_auditevent_2041_03 SET verb = 'x'")
    assert refused(APP, "TRUNCATE tenants_auditevent_2041_03")


def test_a_table_made_later_can_be_filled_and_not_rewritten_until_granted(roles):
    sql("CREATE TABLE made_later (id serial PRIMARY KEY, name text)")
    with acting_as(APP):
        sql("INSERT INTO made_later (name) VALUES ('a')")
    assert refused(APP, "DELETE FROM made_later")

    grants.grant_roles(app=APP, reader=READER)

    with acting_as(APP):
        sql("DELETE FROM made_later")


def test_the_reader_reads_without_secrets_and_writes_nothing(roles):
    with acting_as(READER):
        sql("SELECT id, email, name FROM tenants_user")
        sql("SELECT * FROM tenants_auditevent")
        sql("SELECT * FROM tenants_tenant")

    for statement in (
        "SELECT password FROM tenants_user",
        "SELECT digest FROM tenants_apikey",
        "SELECT * FROM django_session",
        "SELECT ciphertext FROM rental_secret",
        "SELECT env FROM rental_instance",
        "SELECT command FROM rental_instance",
        "SELECT spec FROM scheduler_allocation",
        "SELECT spec FROM scheduler_request",
        "SELECT body FROM tenants_idempotencykey",
        "INSERT INTO tenants_periodicrun (name, slot) VALUES ('a', now())",
        "UPDATE tenants_tenant SET name = 'x'",
        "DELETE FROM tenants_tenant",
    ):
        assert refused(READER, statement), statement


def test_what_was_given_too_much_is_taken_back(roles):
    sql(f"GRANT ALL ON tenants_auditevent, tenants_auditevent_default TO {APP}")
    sql(f"GRANT UPDATE (verb) ON tenants_auditevent TO {APP}")
    assert not refused(APP, "TRUNCATE tenants_auditevent")

    grants.grant_roles(app=APP, reader=READER)

    assert refused(APP, "TRUNCATE tenants_auditevent")
    assert refused(APP, "UPDATE tenants_auditevent SET verb = 'x'")
    assert refused(APP, "TRUNCATE tenants_auditevent_default")


def test_granting_twice_is_granting_once(roles):
    def acl():
        return sql(
            "SELECT relname, relacl::text FROM pg_class"
            " WHERE relnamespace = current_schema()::regnamespace ORDER BY 1"
        )

    before = acl()
    assert grants.grant_roles(app=APP, reader=READER) == [APP, READER]
    assert acl() == before


def test_missing_roles_are_said_and_no_error():
    out = StringIO()
    call_command("grant_roles", "--app", "no_such_app", "--reader", "no_such_reader", stdout=out)

    assert out.getvalue().splitlines() == [
        "no_such_app: does not exist; nothing to do",
        "no_such_reader: does not exist; nothing to do",
    ]


def test_a_superuser_is_no_role_for_the_app():
    sql(f"CREATE ROLE {APP} SUPERUSER")

    with pytest.raises(CommandError, match="is a superuser"):
        call_command("grant_roles", "--app", APP, "--reader", "no_such_reader")


def test_the_owners_member_is_no_role_for_the_app():
    sql(f"CREATE ROLE {APP} NOLOGIN")
    sql(f"GRANT {sql('SELECT current_user')[0][0]} TO {APP}")

    with pytest.raises(CommandError, match="owns tables here"):
        call_command("grant_roles", "--app", APP, "--reader", "no_such_reader")
