"""The ledger: accounts, transfers between them, and the wallets and holds that guard spending."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from rental.records.append_only import AppendOnly
from rental.records.ids import new_id
from rental.records.scoped import TenantScoped


class Account(models.Model):
    """
    A place in the ledger. Its balance is Σ credits − Σ debits; no row holds it.

    ``tenant`` is NULL for the operator's own accounts (revenue, issued, rounding).
    """

    class Kind(models.TextChoices):
        CASH = "cash", _("cash")
        REVENUE = "revenue", _("revenue")
        RECEIVABLE = "receivable", _("receivable")
        ISSUED = "issued", _("issued")
        ROUNDING = "rounding", _("rounding")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", null=True, blank=True, on_delete=models.PROTECT, related_name="accounts"
    )
    kind = models.CharField(max_length=12, choices=Kind.choices)
    currency = models.CharField(max_length=3)

    class Meta:
        verbose_name = _("account")
        verbose_name_plural = _("accounts")
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "kind", "currency"],
                nulls_distinct=False,
                name="one_account_of_a_kind",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["cash", "receivable"], tenant__isnull=False)
                | Q(kind__in=["revenue", "issued", "rounding"], tenant__isnull=True),
                name="an_account_is_a_tenants_or_the_operators",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.tenant_id or ''}".strip()


class Transfer(AppendOnly):
    """One movement: ``amount`` leaves ``debit`` and enters ``credit``. Undone by another one."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False
    )
    key = models.CharField(max_length=120, unique=True)
    debit = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="debits")
    credit = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="credits")
    amount = models.BigIntegerField()
    code = models.CharField(max_length=24)
    reason = models.TextField(blank=True)
    group_id = models.UUIDField(null=True, blank=True)
    reverses = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="reversed_by"
    )
    effective_at = models.DateTimeField()

    objects: ClassVar = TenantScoped.as_manager()

    class Meta(AppendOnly.Meta):
        verbose_name = _("transfer")
        verbose_name_plural = _("transfers")
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="a_transfer_moves_something"),
            models.CheckConstraint(
                condition=~Q(debit=F("credit")), name="a_transfer_has_two_accounts"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "id"], name="transfer_page")]

    def __str__(self) -> str:
        return f"{self.code} {self.amount}"


class Wallet(models.Model):
    """
    A pot of a tenant's money. ``posted`` repeats the balance of ``account``; settle, credit and
    reversal change both in one transaction, under this row's lock.

    ``burn``: micro-units an hour of the open runs. ``exhausts_at``: when the money ends; at that
    instant billing closes the runs.
    """

    class Kind(models.TextChoices):
        CASH = "cash", _("cash")
        GIFT = "gift", _("gift")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, related_name="wallets", db_index=False
    )
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.CASH)
    currency = models.CharField(max_length=3)
    scope = models.CharField(max_length=200, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    account = models.OneToOneField(Account, on_delete=models.PROTECT, related_name="wallet")
    posted = models.BigIntegerField(default=0)
    held = models.BigIntegerField(default=0)
    credit_limit = models.BigIntegerField(default=0)
    burn = models.BigIntegerField(default=0)
    exhausts_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar = TenantScoped.as_manager()

    class Meta:
        verbose_name = _("wallet")
        verbose_name_plural = _("wallets")
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "kind", "currency"], name="one_wallet_of_a_kind"
            ),
            models.CheckConstraint(condition=Q(held__gte=0), name="held_is_not_negative"),
            models.CheckConstraint(
                condition=Q(credit_limit__gte=0), name="a_credit_limit_is_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(posted__gte=-F("credit_limit")),
                name="a_wallet_is_never_below_its_credit_limit",
            ),
        ]
        indexes = [
            models.Index(
                fields=["exhausts_at"],
                condition=Q(exhausts_at__isnull=False),
                name="wallet_exhausts",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.tenant_id}"


class Hold(models.Model):
    """
    Money kept aside at the entry gate for one instance: one hour of its burn, or what is left.

    ``burn`` (micro-units an hour) is kept so that settle can place the hold anew.
    """

    class State(models.TextChoices):
        PENDING = "pending", _("pending")
        FREED = "freed", _("freed")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, related_name="holds", db_index=False
    )
    instance_id = models.UUIDField()
    burn = models.BigIntegerField()
    amount = models.BigIntegerField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.PENDING)
    placed_at = models.DateTimeField()
    freed_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar = TenantScoped.as_manager()

    class Meta:
        verbose_name = _("hold")
        verbose_name_plural = _("holds")
        constraints = [
            models.UniqueConstraint(
                fields=["instance_id"],
                condition=Q(state="pending"),
                name="one_pending_hold_an_instance",
            ),
            models.CheckConstraint(condition=Q(amount__gte=0), name="a_hold_is_not_negative"),
            models.CheckConstraint(condition=Q(burn__gte=0), name="a_burn_is_not_negative"),
            models.CheckConstraint(
                condition=Q(state="pending", freed_at__isnull=True)
                | Q(state="freed", freed_at__isnull=False),
                name="a_freed_hold_says_when",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant"], condition=Q(state="pending"), name="hold_pending")
        ]

    def __str__(self) -> str:
        return f"{self.instance_id} {self.amount}"
