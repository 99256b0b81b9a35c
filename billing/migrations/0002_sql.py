"""
What Django cannot say: the arithmetic of ticks for settle's one statement (the same rules as
billing.core, compared by tests/billing/test_sql_equals_core.py), and how the hot tables are stored.
"""

from django.db import migrations

FUNCTIONS = r"""
-- F(n): what the first n ticks cost, micro-units; numeric, half up, multiplied before divided.
CREATE FUNCTION billing_price_of_ticks(n bigint, price bigint, share_n int, share_d int)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT div(2::numeric * n * price * share_n + 600::numeric * share_d,
               1200::numeric * share_d)::bigint
$$;

-- The first tick that begins at or after the instant; NULL stays NULL (no end).
CREATE FUNCTION billing_tick_at(started_at timestamptz, instant timestamptz)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN instant IS NULL THEN NULL
                ELSE GREATEST(0, ceil(extract(epoch FROM instant - started_at) / 6)::bigint) END
$$;

-- uuid7, as rental.records.ids.new_id: rows made by SQL sort by time like all the others.
CREATE FUNCTION billing_new_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
        FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$$;
"""

DROP_FUNCTIONS = """
DROP FUNCTION billing_price_of_ticks(bigint, bigint, int, int);
DROP FUNCTION billing_tick_at(timestamptz, timestamptz);
DROP FUNCTION billing_new_id();
"""

# Room on the page keeps the updates of the hot tables inside it (HOT): no index is touched.
STORAGE = """
ALTER TABLE billing_stretch SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE billing_tally SET (fillfactor = 70);
ALTER TABLE billing_wallet SET (fillfactor = 70);
ALTER TABLE billing_run SET (fillfactor = 80);
ALTER TABLE billing_charge DROP CONSTRAINT billing_charge_pkey, ADD PRIMARY KEY (id, period);
"""

DROP_STORAGE = """
ALTER TABLE billing_charge DROP CONSTRAINT billing_charge_pkey, ADD PRIMARY KEY (id);
ALTER TABLE billing_stretch RESET (fillfactor, autovacuum_vacuum_scale_factor);
ALTER TABLE billing_tally RESET (fillfactor);
ALTER TABLE billing_wallet RESET (fillfactor);
ALTER TABLE billing_run RESET (fillfactor);
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0001_initial")]
    operations = [
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        migrations.RunSQL(STORAGE, DROP_STORAGE),
    ]
