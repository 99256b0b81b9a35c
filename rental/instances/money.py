"""What instances ask of billing, in the lock order of the house: wallet, instance, then run."""

import uuid
from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction

from billing.services import runs
from billing.services.runs import RunOpening
from rental.instances.models import Instance
from scheduler.services.place import Placed


def opening_of(
    instance: Instance,
    *,
    run_id: uuid.UUID,
    allocation_id: uuid.UUID,
    node_id: uuid.UUID,
    now: datetime,
) -> RunOpening:
    """Return the run of an instance on an allocation. An offer's price is for the offer as sold."""
    return RunOpening(
        run_id=run_id,
        tenant_id=instance.tenant_id,
        project_id=instance.project_id,
        instance_id=instance.id,
        allocation_id=allocation_id,
        reporter=node_id,
        session=instance.session,
        price_key=instance.price_key,
        market=instance.market,
        share=Fraction(1),
        opened_at=now,
    )


def open_placed(placed: Iterable[Placed], *, now: datetime) -> None:
    """
    Open the runs of what was placed, inside the scheduler's commit (DESIGN §2, crossing 3).

    Reads instances without locking them: the caller holds requests and nodes, which come later
    in the lock order. What is read here is fixed while the request waits.
    """
    items = list(placed)
    instances = Instance.objects.in_bulk([item.instance_id for item in items])
    runs.open_runs(
        [
            opening_of(
                instances[item.instance_id],
                run_id=item.run_id,
                allocation_id=item.allocation_id,
                node_id=item.node_id,
                now=now,
            )
            for item in items
        ]
    )
