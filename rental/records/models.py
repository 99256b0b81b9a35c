"""Tables of the records floor. They live in the Django app "tenants": one app, one migration."""

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from rental.records.append_only import AppendOnly
from rental.records.ids import new_id
from rental.records.scoped import TenantScoped


class IdempotencyKeyQuerySet(TenantScoped["IdempotencyKey"]):
    """Rows of a tenant."""


class IdempotencyKey(models.Model):
    """
    The answer that a tenant's request got, under the key that came with it.

    Inserted in the transaction of the effect: whoever sees the row sees the effect and the answer.
    ``running`` is therefore never seen from outside.
    """

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        DONE = "done", _("done")

    tenant_id = models.UUIDField()
    key = models.CharField(max_length=255)
    request_hash = models.CharField(max_length=64)
    state = models.CharField(max_length=8, choices=State.choices, default=State.RUNNING)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField()

    objects = IdempotencyKeyQuerySet.as_manager()

    class Meta:
        app_label = "tenants"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "key"], name="idempotency_key_is_used_once_a_tenant"
            ),
            models.CheckConstraint(
                condition=Q(state="running") | Q(state="done", status__isnull=False),
                name="idempotency_key_that_is_done_has_an_answer",
            ),
        ]
        indexes = [models.Index(fields=["created_at"], name="idempotency_key_age")]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.key}"


class OutboxMessage(models.Model):
    """
    An effect on the outside world, written in the transaction that causes it and sent after.

    ``key`` names the effect for whoever receives it: the relay delivers at least once, and a
    receiver that has seen the key does nothing.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    topic = models.CharField(max_length=64)
    key = models.CharField(max_length=255)
    payload = models.JSONField(encoder=DjangoJSONEncoder)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)

    class Meta:
        app_label = "tenants"
        constraints = [
            models.UniqueConstraint(fields=["topic", "key"], name="outbox_message_is_put_once"),
        ]
        indexes = [
            # The relay reads what is unsent; that is a sliver of the table.
            models.Index(
                fields=["due_at"], condition=Q(sent_at__isnull=True), name="outbox_message_unsent"
            ),
            models.Index(
                fields=["sent_at"], condition=Q(sent_at__isnull=False), name="outbox_message_sent"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.topic} {self.key}"


class AuditEventQuerySet(TenantScoped["AuditEvent"]):
    """Rows of a tenant."""


class AuditEvent(AppendOnly):
    """
    Who changed what: one row for each accepted change, in its transaction. Kept 7 years.

    The table is partitioned by month of ``at`` (0001 makes it by SQL, ``records.housekeeping``
    makes the next months); its real primary key is (id, at), since PostgreSQL wants the
    partition key in it. ``tenant_id`` is NULL for what belongs to no tenant (a staff role, a
    user). No foreign keys: the log outlives what it tells of. ``hash`` is for the chain to come.
    """

    class ActorKind(models.TextChoices):
        USER = "user", _("user")
        API_KEY = "api_key", _("API key")
        STAFF = "staff", _("staff")
        SYSTEM = "system", _("system")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField()
    tenant_id = models.UUIDField(null=True)
    actor_kind = models.CharField(max_length=8, choices=ActorKind.choices)
    actor_id = models.CharField(max_length=64)
    verb = models.CharField(max_length=64)
    subject = models.CharField(max_length=96)
    before = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    after = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    request_id = models.CharField(max_length=64, null=True)
    hash = models.BinaryField(max_length=32, null=True)

    objects = AuditEventQuerySet.as_manager()

    class Meta(AppendOnly.Meta):
        app_label = "tenants"
        verbose_name = _("audit event")
        verbose_name_plural = _("audit events")
        constraints = [
            models.CheckConstraint(
                condition=Q(actor_kind__in=["user", "api_key", "staff", "system"]),
                name="audit_event_actor_is_known",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "-at"], name="audit_event_of_tenant"),
            models.Index(fields=["subject", "-at"], name="audit_event_of_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}"


class PeriodicRun(models.Model):
    """One period of a periodic pass, taken by whoever inserted the row first."""

    name = models.CharField(max_length=64)
    slot = models.DateTimeField()
    taken_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "tenants"
        constraints = [
            models.UniqueConstraint(fields=["name", "slot"], name="periodic_slot_is_taken_once"),
        ]
        indexes = [models.Index(F("slot"), name="periodic_run_age")]

    def __str__(self) -> str:
        return f"{self.name} {self.slot:%Y-%m-%dT%H:%M:%S}"
