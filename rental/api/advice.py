"""Advice: what the samples of the last hours say about running instances."""

from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.fields import Instant, Money, Output, Prefixed
from rental.instances.samples.findings import Finding, list_findings


class FindingOutput(Output):
    """
    `idle`: busy in no minute more than 3 %. `larger_than_needed`: a smaller share would do, with a
    fifth of its work and a tenth of its memory to spare. `too_small`: busy all the time.
    """

    instance_id = Prefixed("ins", source="instance.pk")
    name = serializers.CharField(source="instance.name")
    kind = serializers.CharField()
    since = Instant(help_text="The samples from then on were looked at.")
    busy_percent = serializers.IntegerField(help_text="Of the slice; exceeded in 5 of 100 minutes.")
    vram_peak_mib = serializers.IntegerField()
    tenths = serializers.IntegerField(help_text="Of a card, that it has.")
    needed_tenths = serializers.IntegerField()
    offer = serializers.CharField(
        source="offer_code", allow_null=True, help_text="What to take instead."
    )
    price_per_hour = Money(source="price", allow_null=True, help_text="Of that offer, now.")


class AdviceList(TenantView):
    @operation(
        Contract(
            name="list_advice",
            summary="List what could be stopped or cut to another size",
            description=(
                "Running instances that have sent samples for at least 90 of the last 120 minutes. "
                "Advice only: nothing is changed."
            ),
            verb="instances:read",
            output=FindingOutput,
            shape="list",
        )
    )
    def get(self) -> list[Finding]:
        return list_findings(tenant_id=self.tenant_id, now=self.now)
