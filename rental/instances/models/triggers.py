"""
The version of an instance: raised by the database whenever something of it that people see changes,
and said on the channel ``tessera_live``, so that open pages read that row anew (rental.realtime).

Said once a transaction, at its commit and with the version that it leaves: payload
{"t": tenant, "i": instance, "v": version}. Nothing is said of a row that was written as it stood.
"""

import pgtrigger

CHANNEL = "tessera_live"

VERSION_RISES = pgtrigger.Trigger(
    name="version_rises",
    when=pgtrigger.Before,
    operation=pgtrigger.Update,
    # Whatever was written into it: rows that are saved whole carry an older one.
    condition=pgtrigger.AnyChange(),
    func="NEW.version := OLD.version + 1; RETURN NEW;",
)

VERSION_IS_SAID = pgtrigger.Trigger(
    name="version_is_said",
    when=pgtrigger.After,
    operation=pgtrigger.Insert | pgtrigger.Update,
    # At the commit: PostgreSQL drops equal messages of a transaction, so one remains.
    timing=pgtrigger.Deferred,
    func=f"""
        IF TG_OP = 'UPDATE' AND NEW.version = OLD.version THEN
            RETURN NULL;
        END IF;
        PERFORM pg_notify('{CHANNEL}', json_build_object(
                    't', tenant_id, 'i', id, 'v', version)::text)
           FROM rental_instance WHERE id = NEW.id;
        RETURN NULL;
        """,
)


def raises_version_of_instance(operation: pgtrigger.Operations) -> pgtrigger.Trigger:
    """
    Return the trigger of a table that is shown with an instance. Its rows are written under the
    instance's lock, so the update here waits for nobody.
    """
    return pgtrigger.Trigger(
        name="raises_version_of_instance",
        when=pgtrigger.After,
        operation=operation,
        func="""
        IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN
            RETURN NULL;
        END IF;
        UPDATE rental_instance SET version = version + 1
         WHERE id = COALESCE(NEW.instance_id, OLD.instance_id);
        RETURN NULL;
        """,
    )
