"""
What the database lets each role do. Three roles: the owner migrates; the app reads and writes but
owns nothing and cannot rewrite append-only tables; the reader looks, without seeing secrets.
"""

from collections.abc import Iterable
from typing import Final

from django.db import connection, transaction
from psycopg import sql

from rental.records.append_only import append_only_models

APP: Final = "tessera_app"
READER: Final = "tessera_reader"

# Nobody but the owner writes these; a changed row here would make migrations run twice.
OWNERS_TABLES: Final = frozenset({"django_migrations"})
# What a report never needs: who holds a session's key, a second factor or a code holds the account.
SECRET_TABLES: Final = frozenset(
    {
        "django_session",
        "usersessions_usersession",
        "mfa_authenticator",
        "account_emailconfirmation",
        "tenants_contactcode",
    }
)
# Of secrets, and of what a customer hands to his program (an instance's, the order's that carries
# it to the node, the answer's that repeats it).
SECRET_COLUMNS: Final = frozenset(
    {"password", "digest", "secret", "ciphertext", "env", "command", "spec", "body"}
)

APP_FUNCTIONS: Final = (
    "tenants_make_audit_month(date)",
    "rental_make_sample_day(date)",
    "rental_drop_sample_days()",
)


class UnsafeRole(Exception):
    """The role is above grants (superuser, owner of tables): granting to it would say nothing."""

    def __init__(self, role: str, why: str) -> None:
        super().__init__(f"the role {role!r} {why}; privileges would not bind it")
        self.role, self.why = role, why


@transaction.atomic
def grant_roles(*, app: str = APP, reader: str = READER) -> list[str]:
    """
    Bring the privileges of both roles to what they should be; return the roles that exist.

    Everything is revoked first and then granted, in one transaction: what an older version gave
    too much is gone, and nobody ever sees the state in between. Tables made later get SELECT and
    INSERT for the app by default; UPDATE and DELETE come when this runs again after migrating,
    so that a new append-only table is never open by accident.

    :raises UnsafeRole: if a role is a superuser or owns tables here
    """
    done = []
    if _exists(app):
        _check_bound(app)
        _grant_app(app)
        done.append(app)
    if _exists(reader):
        _check_bound(reader)
        _grant_reader(reader)
        done.append(reader)
    return done


def append_only_tables() -> frozenset[str]:
    """Return the append-only models' tables with all their partitions."""
    parents = [model._meta.db_table for model in append_only_models()]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT tree.relid::regclass::text
            FROM unnest(%s::text[]) AS parent, pg_partition_tree(parent::regclass) AS tree
            """,
            [parents],
        )
        return frozenset(parents) | {row[0] for row in cursor.fetchall()}


def _grant_app(role: str) -> None:
    _revoke_all(role)
    frozen = append_only_tables()
    for table in _tables():
        if table in OWNERS_TABLES:
            verbs = "SELECT"
        elif table in frozen:
            verbs = "SELECT, INSERT"
        else:
            verbs = "SELECT, INSERT, UPDATE, DELETE"
        _run("GRANT {verbs} ON TABLE {table} TO {role}", role, table=table, verbs=verbs)
    _run("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}", role)
    for function in APP_FUNCTIONS:
        _run("GRANT EXECUTE ON FUNCTION {verbs} TO {role}", role, verbs=function)
    _run(
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT ON TABLES TO {role}", role
    )
    _run(
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT USAGE, SELECT ON SEQUENCES TO {role}",
        role,
    )


def _grant_reader(role: str) -> None:
    """No default privileges: a new table may have a secret column, so it waits for this."""
    _revoke_all(role)
    for table in _tables():
        if table in SECRET_TABLES:
            continue
        columns = _columns(table)
        if SECRET_COLUMNS.isdisjoint(columns):
            _run("GRANT SELECT ON TABLE {table} TO {role}", role, table=table)
        else:
            shown = [name for name in columns if name not in SECRET_COLUMNS]
            _run("GRANT SELECT ({columns}) ON TABLE {table} TO {role}", role, table, columns=shown)


def _revoke_all(role: str) -> None:
    # Revoking a table's privileges takes those of its columns along.
    _run("REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role}", role)
    _run("REVOKE ALL ON ALL SEQUENCES IN SCHEMA {schema} FROM {role}", role)
    _run("REVOKE CREATE ON SCHEMA {schema} FROM {role}", role)
    _run("ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} REVOKE ALL ON TABLES FROM {role}", role)
    _run("ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} REVOKE ALL ON SEQUENCES FROM {role}", role)
    _run("GRANT USAGE ON SCHEMA {schema} TO {role}", role)


def _run(
    statement: str,
    role: str,
    table: str = "",
    *,
    verbs: str = "",
    columns: Iterable[str] = (),
) -> None:
    """Execute with every name quoted; ``verbs`` are constants of this module."""
    with connection.cursor() as cursor:
        text = sql.SQL(statement).format(
            schema=sql.Identifier(_schema()),
            role=sql.Identifier(role),
            table=sql.Identifier(table) if table else sql.SQL(""),
            verbs=sql.SQL(verbs),
            columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        )
        cursor.execute(text.as_string(cursor.connection))


def _schema() -> str:
    return str(_one("SELECT current_schema()"))


def _tables() -> list[str]:
    """Every table of the schema, partitions too: also what no model knows (django_migrations)."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT c.relname FROM pg_class c
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
            ORDER BY c.relname
            """
        )
        return [row[0] for row in cursor.fetchall()]


def _columns(table: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT attname FROM pg_attribute
            WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
            """,
            [connection.ops.quote_name(table)],
        )
        return [row[0] for row in cursor.fetchall()]


def _one(query: str, *values: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        row = cursor.fetchone()
        return None if row is None else row[0]


def _exists(role: str) -> bool:
    return _one("SELECT 1 FROM pg_roles WHERE rolname = %s", role) is not None


def _check_bound(role: str) -> None:
    if _one("SELECT rolsuper FROM pg_roles WHERE rolname = %s", role):
        raise UnsafeRole(role, "is a superuser")
    owns = """
        SELECT count(*) FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace
          AND pg_has_role(%s, c.relowner, 'MEMBER')
    """
    if _one(owns, role):
        raise UnsafeRole(role, "owns tables here, or is a member of the role that does")
