"""Months of the audit log are made by a function of the owner: the app's role owns nothing."""

from django.db import migrations

# SECURITY DEFINER: runs as the migrating role, so the search path is fixed (a caller's own
# "tenants_auditevent" must not be found first) and the only argument is a date. The bounds are
# UTC months. The lock is short: nobody inserts into a month that lies ahead.
MAKE_MONTH = """
CREATE FUNCTION tenants_make_audit_month(month date) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    first date := date_trunc('month', month)::date;
    lower timestamptz := first::timestamp AT TIME ZONE 'UTC';
    upper timestamptz := (first + interval '1 month') AT TIME ZONE 'UTC';
    name text := 'tenants_auditevent_' || to_char(first, 'YYYY_MM');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN 'exists';
    END IF;
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE tenants_auditevent_default IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM tenants_auditevent_default WHERE at >= lower AND at < upper) THEN
        RETURN 'in_default';
    END IF;
    EXECUTE format(
        'CREATE TABLE %I PARTITION OF tenants_auditevent FOR VALUES FROM (%L) TO (%L)',
        name, lower, upper
    );
    RETURN 'made';
END;
$$;
REVOKE EXECUTE ON FUNCTION tenants_make_audit_month(date) FROM PUBLIC;
"""


def make_function(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        schema = cursor.fetchone()[0]
        cursor.execute(MAKE_MONTH.replace("{schema}", schema))
        # The months that a fresh installation writes to first.
        cursor.execute(
            "SELECT tenants_make_audit_month((now() AT TIME ZONE 'UTC' + n * interval '1 month')::date)"
            " FROM generate_series(0, 3) AS n"
        )


def drop_function(apps, schema_editor):
    schema_editor.execute("DROP FUNCTION tenants_make_audit_month(date)")


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]
    operations = [migrations.RunPython(make_function, drop_function)]
