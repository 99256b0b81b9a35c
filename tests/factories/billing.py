"""Tenants with money, prices and runs, as exact as a test needs them."""

import uuid
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from psycopg.types.range import TimestamptzRange

from agents.protocol import RunReport, Stretch
from billing.metering import Refusal, UsageReport, record
from billing.models import PriceVersion, Run
from billing.services.runs import RunOpening, open_runs
from billing.services.wallets import credit
from rental.records.audit import Actor
from rental.records.ids import new_id
from rental.tenants.models import Project, Tenant

# In the future: a price version is closed at a future time only, by the database's own clock.
NOON = datetime(2030, 3, 5, 12, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
TICK = timedelta(seconds=6)
CNY = 1_000_000  # micro-units
KEY = "compute/test/a100-whole/on_demand"
STAFF = Actor(kind="staff", id="usr_operator")


def make_tenant(*, balance: int = 0, now: datetime = NOON) -> Tenant:
    """Make a tenant; ``balance`` micro-units are credited."""
    name = f"t{uuid.uuid4().hex[:12]}"
    tenant = Tenant.objects.create(name=name, slug=name)
    Project.objects.create(tenant=tenant, slug="default", name="Default", is_default=True)
    if balance:
        credit(
            tenant_id=tenant.id,
            amount=balance,
            reason="opening balance",
            actor=STAFF,
            key=f"opening/{tenant.id}",
            now=now,
        )
    return tenant


def make_price(
    price: int,
    *,
    since: datetime = LONG_AGO,
    until: datetime | None = None,
    key: str = KEY,
) -> PriceVersion:
    """Write a version as if it had been published in time."""
    return PriceVersion.objects.create(
        price_key=key,
        currency="CNY",
        during=TimestamptzRange(since, until),
        price=price,
        unit="hour",
        created_at=since,
    )


def make_run(
    tenant: Tenant,
    *,
    at: datetime = NOON,
    node: uuid.UUID | None = None,
    instance: uuid.UUID | None = None,
    share: Fraction = Fraction(1),
    key: str = KEY,
    started: bool = True,
) -> Run:
    """Open a run at ``at``; ``started``: its readiness was reported at the same instant."""
    run_id = new_id()
    node = node or new_id()
    open_runs(
        [
            RunOpening(
                run_id=run_id,
                tenant_id=tenant.id,
                project_id=Project.objects.get(tenant=tenant, is_default=True).id,
                instance_id=instance or new_id(),
                allocation_id=new_id(),
                reporter=node,
                session=1,
                price_key=key,
                market="on_demand",
                share=share,
                opened_at=at,
            )
        ]
    )
    run = Run.objects.get(pk=run_id)
    if started:
        report(run, at=at, age_ms=0)
        run.refresh_from_db()
    return run


def report(
    run: Run,
    *ticks: tuple[int, int],
    at: datetime | None = None,
    age_ms: int | None = None,
    node: uuid.UUID | None = None,
    net_out: int = 0,
) -> list[Refusal]:
    """Let the run's node (or another) report stretches; without ``at`` received just in time."""
    if at is None:
        at = run.started_at + max((until for _, until in ticks), default=0) * TICK
    stretches = [Stretch(from_tick=a, until_tick=b, net_out=net_out) for a, b in ticks]
    sent = RunReport(run=str(run.id), ready_age_ms=age_ms, stretches=stretches)
    return record(reports=[UsageReport(node or run.reporter, at, [sent])])
