"""Minutes of samples: a table partitioned by day, whose days the owner's functions make and drop."""

from django.db import migrations, models

# Django knows no partitions. The primary key needs the partition's column in it.
TABLE = """
CREATE TABLE rental_instancesampleminute (
    instance_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    minute timestamptz NOT NULL,
    count integer NOT NULL CHECK (count >= 0),
    util_sum bigint NOT NULL,
    util_max integer NOT NULL CHECK (util_max >= 0),
    vram_sum bigint NOT NULL,
    vram_max bigint NOT NULL,
    watts_sum bigint NOT NULL,
    watts_max integer NOT NULL CHECK (watts_max >= 0),
    celsius_sum bigint NOT NULL,
    celsius_max integer NOT NULL,
    PRIMARY KEY (instance_id, minute)
) PARTITION BY RANGE (minute);
CREATE TABLE rental_instancesampleminute_default PARTITION OF rental_instancesampleminute DEFAULT;
"""

# SECURITY DEFINER: run as the migrating role, because the app's role owns nothing. The search path
# is fixed, the one argument is a date, and what is dropped depends on the clock and on no argument:
# whoever may call this can destroy nothing that is younger than 14 days. Days are UTC.
FUNCTIONS = """
CREATE FUNCTION rental_make_sample_day(day date) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    lower timestamptz := day::timestamp AT TIME ZONE 'UTC';
    upper timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
    name text := 'rental_instancesampleminute_' || to_char(day, 'YYYY_MM_DD');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN 'exists';
    END IF;
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE rental_instancesampleminute_default IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM rental_instancesampleminute_default
                WHERE minute >= lower AND minute < upper) THEN
        RETURN 'in_default';
    END IF;
    EXECUTE format(
        'CREATE TABLE %I PARTITION OF rental_instancesampleminute FOR VALUES FROM (%L) TO (%L)',
        name, lower, upper
    );
    RETURN 'made';
END;
$$;
REVOKE EXECUTE ON FUNCTION rental_make_sample_day(date) FROM PUBLIC;

CREATE FUNCTION rental_drop_sample_days() RETURNS SETOF date
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    name text;
    day date;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    FOR name IN
        SELECT child.relname FROM pg_inherits
          JOIN pg_class child ON child.oid = inhrelid
         WHERE inhparent = 'rental_instancesampleminute'::regclass
           AND child.relname ~ '_[0-9]{4}_[0-9]{2}_[0-9]{2}$'
    LOOP
        day := to_date(right(name, 10), 'YYYY_MM_DD');
        -- A day is past its time when its last minute is.
        IF day < (clock_timestamp() AT TIME ZONE 'UTC')::date - 14 THEN
            EXECUTE format('DROP TABLE %I', name);
            RETURN NEXT day;
        END IF;
    END LOOP;
END;
$$;
REVOKE EXECUTE ON FUNCTION rental_drop_sample_days() FROM PUBLIC;
"""


def make_functions(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        schema = cursor.fetchone()[0]
        cursor.execute(FUNCTIONS.replace("{schema}", schema))
        # The days that a fresh installation writes to first.
        cursor.execute(
            "SELECT rental_make_sample_day((now() AT TIME ZONE 'UTC')::date + n)"
            " FROM generate_series(-1, 7) AS n"
        )


def drop_functions(apps, schema_editor):
    schema_editor.execute("DROP FUNCTION rental_make_sample_day(date)")
    schema_editor.execute("DROP FUNCTION rental_drop_sample_days()")


class Migration(migrations.Migration):
    dependencies = [("rental", "0002_live_versions_and_passwords")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(TABLE, "DROP TABLE rental_instancesampleminute")
            ],
            state_operations=[
                migrations.CreateModel(
                    name="InstanceSampleMinute",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "instance_id",
                                "minute",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("instance_id", models.UUIDField()),
                        ("tenant_id", models.UUIDField()),
                        ("minute", models.DateTimeField()),
                        ("count", models.PositiveIntegerField()),
                        ("util_sum", models.BigIntegerField()),
                        ("util_max", models.PositiveIntegerField()),
                        ("vram_sum", models.BigIntegerField()),
                        ("vram_max", models.BigIntegerField()),
                        ("watts_sum", models.BigIntegerField()),
                        ("watts_max", models.PositiveIntegerField()),
                        ("celsius_sum", models.BigIntegerField()),
                        ("celsius_max", models.IntegerField()),
                    ],
                    options={
                        "verbose_name": "minute of samples",
                        "verbose_name_plural": "minutes of samples",
                        "db_table": "rental_instancesampleminute",
                    },
                ),
            ],
        ),
        migrations.RunPython(make_functions, drop_functions),
    ]
