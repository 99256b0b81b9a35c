"""The sweep that keeps instances' tables small. Instances themselves stay: bills name them."""

from datetime import datetime, timedelta
from typing import Final

import structlog

from rental.instances.models import Operation
from rental.instances.samples.days import keep_sample_days
from rental.instances.states import InstanceState
from rental.records.pruning import forget

log = structlog.get_logger()

OPERATIONS_KEPT: Final = timedelta(days=365)


def keep_house(*, now: datetime) -> None:
    """
    Forget the old commands of instances that are no more, make the next days of samples and drop
    the past ones. Safe to repeat.
    """
    old = Operation.objects.filter(
        instance__state=InstanceState.DELETED, finished_at__lt=now - OPERATIONS_KEPT
    )
    made, dropped = keep_sample_days(now=now)
    log.info(
        "instances.housekeeping",
        operations=forget(old),
        sample_days_made=len(made),
        sample_days_dropped=len(dropped),
    )
