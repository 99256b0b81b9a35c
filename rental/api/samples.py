"""Samples of an instance, for charts. They are not money, and they may have holes."""

import uuid
from typing import Any

from rest_framework import serializers

from rental.api.contract import Contract, operation
from rental.api.fields import Instant, Output, Query
from rental.api.instances import InstanceView
from rental.instances.samples.queries import LONGEST, Series, read_samples


class SampleOutput(Output):
    """
    What all GPU slices of the instance did in one step: the mean of their utilisation, the sums of
    memory and power, the temperature of the hottest; means over the step, and the highest in it.
    """

    at = Instant()
    util_percent = serializers.IntegerField()
    util_percent_max = serializers.IntegerField()
    vram_mib = serializers.IntegerField()
    vram_mib_max = serializers.IntegerField()
    watts = serializers.IntegerField()
    watts_max = serializers.IntegerField()
    celsius = serializers.IntegerField()
    celsius_max = serializers.IntegerField()


class SeriesOutput(Output):
    """
    ``source`` is `points` (as the node sent them, about one in 10 s; `step_s` is 0) or `minutes`,
    gathered into steps of `step_s`. A step in which nothing was sent is missing.
    """

    since = Instant()
    until = Instant()
    step_s = serializers.IntegerField()
    source = serializers.CharField()  # type: ignore[assignment]  # a member, not the Field's own
    samples = SampleOutput(many=True)


class SampleQuery(Query):
    minutes = serializers.IntegerField(min_value=1, max_value=LONGEST, default=60)


class InstanceSamples(InstanceView):
    @operation(
        Contract(
            name="list_instance_samples",
            summary="Get the samples of an instance, oldest first",
            description=(
                "The last `minutes`, at most 14 days. Up to an hour is told point by point, more "
                "in steps of whole minutes, at most 1,440 of them."
            ),
            verb="instances:read",
            output=SeriesOutput,
            query=SampleQuery,
        )
    )
    def get(self, instance_id: uuid.UUID, query: dict[str, Any]) -> Series:
        self.find(instance_id)
        return read_samples(
            tenant_id=self.tenant_id,
            instance_id=instance_id,
            minutes=query["minutes"],
            now=self.now,
        )
