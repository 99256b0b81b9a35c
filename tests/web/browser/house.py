"""
A house that has been open for some days: a fleet that is half let, a team of people, instances in
every state, charges and charts. What every page is shown with, in tests and in pictures.
"""

import math
from datetime import timedelta

from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret

from billing.models import Run
from billing.services.exhaust import close_exhausted
from billing.services.settle import settle
from billing.services.wallets import credit
from rental.catalog.seed import seed_catalog
from rental.instances import passes, services
from rental.instances.models import Instance
from rental.instances.samples.minutes import Minutes, store_minutes
from rental.instances.samples.points import Point
from rental.instances.samples.recent import recent
from rental.instances.secrets import put_secret
from rental.records.audit import Actor
from rental.records.clock import database_now
from rental.records.ids import to_text
from rental.tenants.models import Role
from rental.tenants.services import create_project, create_tenant, record_consent
from scheduler.models import Gpu, Node, Request
from tests.factories.billing import report
from tests.factories.rental import confirm_wiped, fresh, says, set_liveness
from tests.factories.scheduler import make_node, make_zone
from tests.factories.tenants import (
    make_api_key,
    make_invitation,
    make_member,
    make_ssh_key,
    make_user,
)

STAFF = Actor(kind="staff", id="usr_operator")
PASSWORD = "correct horse battery"
MICRO = 1_000_000
HOUR, TICK = timedelta(hours=1), timedelta(seconds=6)
IMAGE = "pytorch-2.6.0-cuda12.4"
GIB = 1024
A100, RTX4090, H100, V100 = (
    ("A100", 80 * GIB), ("RTX 4090", 24 * GIB), ("H100", 80 * GIB), ("V100", 32 * GIB),
)  # fmt: skip
# name: zone, model, cards
FLEET = {
    "gz-a100-01": ("demo-1a", A100, 8),
    "gz-a100-02": ("demo-1a", A100, 8),
    "gz-4090-01": ("demo-1a", RTX4090, 8),
    "gz-4090-02": ("demo-1b", RTX4090, 8),
    "gz-h100-01": ("demo-1b", H100, 8),
    "gz-v100-01": ("demo-1b", V100, 4),
}
PHASES = ("accepted", "pulling", "starting", "running")
# The other tenants: what they hold, and since how many hours.
OTHERS = {
    "north-robotics": [("h100-80g-x8", 30), ("a100-80g-x4", 26), ("a100-80g-x2", 20)],
    "campus-ai": [("a100-80g-1s", 9), ("a100-80g-2s", 8), ("a100-80g-5s", 8), ("v100-32g-5t", 7)],
    "deepsky": [("rtx4090-24g-x4", 12), ("rtx4090-24g", 11), ("rtx4090-24g-2s", 5)],
}


class House:
    """``instances``: those of ``tenant`` by name. ``empty``: a tenant that has just been opened."""

    def __init__(self):
        self.now = database_now()
        self.begin = self.now - timedelta(days=6)
        self.instances = {}
        seed_catalog(now=self.begin)
        self._build_fleet()
        self._invite_people()
        self._let_to_others()
        self._rent()
        self._break_something()
        self._keep_samples()

    # --- who and where

    def _build_fleet(self):
        for name, (zone, model, gpus) in FLEET.items():
            make_node(
                name=name, gpus=gpus, model=model, zone=make_zone(zone, "demo-1"),
                cpu_milli=gpus * 24_000, ram_mib=gpus * 256 * GIB, disk_mib=gpus * 1024 * GIB,
                shared_allowed=True,
            )  # fmt: skip
        for node in Node.objects.all():
            set_liveness(node, "live", now=self.now)

    def _tenant(self, slug, name, *, money, owner):
        tenant = create_tenant(name=name, slug=slug, owner=owner, now=self.begin)
        if money:
            credit(
                tenant_id=tenant.id, amount=money * MICRO, reason="Bank transfer", actor=STAFF,
                key=f"house:{slug}", now=self.begin,
            )  # fmt: skip
        return tenant

    def _invite_people(self):
        person = lambda name, **rest: make_user(  # noqa: E731
            email=f"{name.split()[0].lower()}@example.com",
            name=name,
            language="en",
            password=PASSWORD,
            **rest,
        )
        self.owner = person("Lin Xiao", phone="+8613800138000")
        record_consent(user=self.owner, document="terms", version="1", now=self.begin)
        self.operator = person("Operator", is_staff=True, is_superuser=True)
        self.clerk = person("Clerk", is_staff=True)  # without a role, with a second factor
        TOTP.activate(self.clerk, generate_totp_secret())
        RecoveryCodes.activate(self.clerk)
        self.newcomer = person("Nova Reed")
        self.homeless = person("Hanna Weiss")
        self.tenant = self._tenant("lin-vision", "Lin Vision Lab", money=2_400, owner=self.owner)
        self.empty = self._tenant("nova", "Nova", money=0, owner=self.newcomer)
        self.mate = make_member(self.tenant, Role.DEVELOPER, user=person("Wang Lei"))
        make_member(self.tenant, Role.BILLING, user=person("Chen Yu"))
        self.viewer = make_member(self.tenant, Role.VIEWER, user=person("Guest Reader"))
        _invitation, self.token = make_invitation(self.tenant, contact="zhao@example.com")
        self.project = create_project(
            tenant=self.tenant, name="Diffusion", slug="diffusion", actor=STAFF, now=self.begin
        )
        self.ssh_key = make_ssh_key(self.tenant)
        self.api_key, _text = make_api_key(self.tenant, now=self.begin)
        self.secret = put_secret(
            tenant_id=self.tenant.id, name="HF_TOKEN", value="hf_0", actor=STAFF, now=self.begin
        )

    # --- what is rented

    def _let_to_others(self):
        for slug, held in OTHERS.items():
            owner = make_user(email=f"{slug}@example.com", name=slug.title(), language="en")
            name = slug.replace("-", " ").title()
            tenant = self._tenant(slug, name, money=9_000, owner=owner)
            for number, (offer, hours) in enumerate(held, 1):
                self._ran(tenant, f"job-{number}", offer, hours=hours, more=60)

    def _order(self, name, offer, *, tenant=None, now=None, **rest):
        actor = Actor(kind="user", id=to_text("usr", self.owner.pk))
        (instance,) = services.create_instances(
            tenant_id=(tenant or self.tenant).id, offer_code=offer, image_code=IMAGE,
            name=name, actor=actor, now=now or self.now, **rest,
        )  # fmt: skip
        if tenant in (None, self.tenant):
            self.instances[name] = instance
        return instance

    def _ran(self, tenant, name, offer, *, hours, more=0, ago=0, **rest):
        """One that began ``ago + hours`` and ``more`` ticks ago; the hours are charged."""
        began = self.now - (ago + hours) * HOUR - more * TICK
        instance = self._order(name, offer, tenant=tenant, now=began, **rest)
        passes.place(now=began)
        for number, phase in enumerate(PHASES):
            says(instance, phase, now=began + number * timedelta(seconds=2), sync=False)
        passes.sync(now=began + timedelta(seconds=7))
        run = Run.objects.get(instance_id=instance.pk)
        report(run, at=began, age_ms=0)
        for hour in [*range(8, hours, 8), hours] if hours else []:
            report(run, (0, 600 * hour), at=began + hour * HOUR)
            settle(now=began + hour * HOUR, tenant_ids=[tenant.id])
        if more:
            report(run, (0, 600 * hours + more), at=began + hours * HOUR + more * TICK)
        return instance

    def _stop(self, instance, *, ago):
        at = self.now - ago * HOUR
        services.stop_instance(
            tenant_id=self.tenant.id, instance_id=instance.pk, now=at,
            actor=Actor(kind="user", id=to_text("usr", self.owner.pk)),
        )  # fmt: skip
        says(instance, "gone", now=at + timedelta(seconds=2))
        settle(now=at + timedelta(minutes=1), tenant_ids=[self.tenant.id])

    def _rent(self):
        lin, keys = self.tenant, {"ssh_key_ids": [self.ssh_key.id]}
        for number, (hours, ago) in enumerate([(9, 100), (14, 76), (11, 52)], 1):
            sweep = self._ran(lin, f"sweep-{number:02}", "a100-80g", hours=hours, ago=ago, **keys)
            self._stop(sweep, ago=ago)
        services.release_instance(
            tenant_id=lin.id, instance_id=self.instances["sweep-01"].pk, actor=STAFF,
            now=self.now - 51 * HOUR,
        )  # fmt: skip
        confirm_wiped(self.instances["sweep-01"], now=self.now - 50 * HOUR)
        self._ran(lin, "qwen-sft", "a100-80g-x2", hours=31, more=140, **keys)
        self._ran(lin, "sdxl-lora", "rtx4090-24g-5t", hours=6, more=210, project_id=self.project.id,
                  **keys)  # fmt: skip
        self._ran(
            lin, "notebook-lei", "a100-80g-1t", hours=2, more=300, password_login=True,
            auto_stop_at=self.now + 3 * HOUR,
        )  # fmt: skip
        waiting = self._order("eval-h100", "h100-80g", **keys)  # all of these are taken
        passes.place(now=self.now)
        self.waiting_request = Request.objects.get(instance_id=waiting.pk)
        starting = self._order("vllm-serve", "v100-32g", password_login=True)
        passes.place(now=self.now)
        says(starting, "accepted", now=self.now)
        says(starting, "pulling", now=self.now)
        close_exhausted(now=self.now)

    def _break_something(self):
        failed = self._order("flux-test", "rtx4090-24g-1t")
        passes.place(now=self.now)
        says(failed, "accepted", now=self.now)
        says(failed, "failed", now=self.now, reason="start_failed",
             detail="image pull: no such manifest")  # fmt: skip
        Node.objects.filter(name="gz-4090-02").update(cordoned=True)
        Gpu.objects.filter(node__name="gz-v100-01", index=3).update(health="unhealthy")

    def _keep_samples(self):
        """An hour point by point and a day of minutes, for what runs."""
        end = int(self.now.timestamp())
        minutes = Minutes(10_000)
        for name, memory in (("qwen-sft", 139_000), ("sdxl-lora", 10_400), ("notebook-lei", 6_100)):
            instance = self.instances[name]
            hour = [(instance.pk, _point(end - ago, memory)) for ago in range(3_590, 0, -10)]
            recent().write(hour)
            for ago in range(86_400, 0, -60):
                minutes.add(instance.tenant_id, instance.pk, _point(end - ago, memory))
        store_minutes(minutes.take_ended(end))

    # --- addresses

    def of(self, name) -> str:
        """The path of one of the tenant's instances."""
        return f"/t/{self.tenant.slug}/instances/{to_text('ins', self.instances[name].pk)}"

    def fresh(self, name) -> Instance:
        return fresh(self.instances[name])


def _point(at, memory):
    """A training: busy, with a pause for the evaluation once in a quarter of an hour."""
    wave, is_pause = math.sin(at / 97) + math.sin(at / 31) / 2, at % 900 < 70
    util = 7 if is_pause else round(91 + 4 * wave)
    watts = 130 if is_pause else round(560 + 40 * wave)
    return Point(
        at, min(util, 100), memory * 9 // 10 if is_pause else memory, watts, round(63 + 3 * wave)
    )
