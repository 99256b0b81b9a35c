"""Instances and their commands."""

import uuid
from collections.abc import Callable
from typing import Any, cast

from django.utils.translation import gettext_lazy as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import FieldError, Problem
from rental.api.fields import (
    Flag,
    Input,
    Instant,
    Money,
    Output,
    PageQuery,
    Prefixed,
    Text,
    Whole,
    Words,
)
from rental.api.operations import OperationOutput
from rental.catalog.models import Market
from rental.catalog.services import MOST_INSTANCES
from rental.instances import services
from rental.instances.models import Instance, OnNodeLoss, Operation
from rental.instances.orders import LONGEST_TIMER, MOST_SSH_KEYS, SHORTEST_DURATION_S
from rental.instances.queries import matching, with_actions, with_facts
from rental.instances.secrets import MOST_NAMED
from rental.instances.states import InstanceState
from rental.records.paging import Page

MOST_WORDS = 64  # of a command, and variables of an environment
MOST_LETTERS = 8192  # of each of them
LONGEST_DURATION_S = int(LONGEST_TIMER.total_seconds())


class InstanceInput(Input):
    """An order for ``count`` independent instances: all of them or none."""

    offer = Text(max_length=60)
    image = Text(max_length=80)
    market = serializers.ChoiceField(choices=Market.values, default=Market.ON_DEMAND.value)
    count = Whole(min_value=1, max_value=MOST_INSTANCES, default=1)
    name = Text(max_length=64, required=False, allow_null=True, default=None)
    project_id = Prefixed("prj", required=False, allow_null=True, default=None)
    ssh_key_ids = serializers.ListField(
        child=Prefixed("ssh"), max_length=MOST_SSH_KEYS, default=list
    )
    command = serializers.ListField(
        child=Text(max_length=MOST_LETTERS, allow_blank=True, trim_whitespace=False),
        max_length=MOST_WORDS,
        default=list,
        help_text="Runs instead of what the image starts.",
    )
    env = serializers.DictField(
        child=Text(max_length=MOST_LETTERS, allow_blank=True, trim_whitespace=False),
        default=dict,
    )
    secrets = serializers.ListField(
        child=Text(max_length=128),
        max_length=MOST_NAMED,
        default=list,
        help_text="Names of secrets; each becomes the variable of its name. Needs `secrets:read`.",
    )
    password_login = Flag(
        default=False,
        help_text="Let whoever knows its password in, beside the SSH keys; see POST password.",
    )
    auto_stop_at = Instant(
        required=False, allow_null=True, default=None, help_text="Stop then, whatever it does."
    )
    max_duration_s = Whole(
        required=False,
        allow_null=True,
        default=None,
        min_value=SHORTEST_DURATION_S,
        max_value=LONGEST_DURATION_S,
        help_text="Stop so many seconds after it became ready.",
    )
    on_node_loss = serializers.ChoiceField(
        choices=OnNodeLoss.values,
        default=OnNodeLoss.KEEP.value,
        help_text=(
            "`keep`: it waits for its node. `replace`: it starts again on another one within 30 s,"
            " without its system disk; only on nodes with a guard, else 422 `replace_not_offered`."
        ),
    )
    migrate_ok = Flag(
        default=True,
        help_text="It may be stopped and started on another node when its own is drained.",
    )
    quote_id = Prefixed("quo", required=False, allow_null=True, default=None)
    max_hourly_price = Money(
        required=False,
        allow_null=True,
        default=None,
        help_text="Refuse the order if all of it together costs more an hour.",
    )

    def validate_env(self, value: dict[str, str]) -> dict[str, str]:
        if len(value) > MOST_WORDS:
            raise serializers.ValidationError(_("There are too many variables."), code="max_length")
        for name in value:
            if not (name.isidentifier() and name.isascii() and len(name) <= 128):
                raise serializers.ValidationError(
                    _("A name is letters, digits and underscores."), code="invalid_name"
                )
        return value


class InstanceChange(Input):
    """What is to be different; what is left out stays. Null takes a timer off."""

    name = Text(max_length=64, required=False)
    protected = Flag(required=False, help_text="Refuse every release until this is false.")
    ssh_key_ids = serializers.ListField(
        child=Prefixed("ssh"), max_length=MOST_SSH_KEYS, required=False
    )
    password_login = Flag(required=False)
    auto_stop_at = Instant(
        required=False, allow_null=True, help_text="Of this session: a start begins without it."
    )
    max_duration_s = Whole(
        required=False,
        allow_null=True,
        min_value=SHORTEST_DURATION_S,
        max_value=LONGEST_DURATION_S,
        help_text="Of this session, from when it became ready.",
    )
    on_node_loss = serializers.ChoiceField(choices=OnNodeLoss.values, required=False)
    migrate_ok = Flag(required=False)


class EndpointOutput(Output):
    """How to reach a running instance; may differ after the next start."""

    kind = serializers.CharField()
    host = serializers.CharField()
    port = serializers.IntegerField()
    user = serializers.CharField()
    host_key_fingerprint = serializers.CharField()


class NoticeOutput(Output):
    """Something will happen to the instance at ``deadline``."""

    kind = serializers.CharField()
    at = Instant()
    deadline = Instant()


class WaitingOutput(Output):
    """Why it waits for a place: how many nodes refused it, by what they lack."""

    since = Instant(source="requested_at")
    expires_at = Instant()
    reasons = serializers.DictField(child=serializers.IntegerField())


@extend_schema_field(OpenApiTypes.OBJECT)
class Anything(serializers.JSONField):
    """An object whose members are described in words only."""


class InstanceOutput(Output):
    """
    What a customer has. States are open: treat an unknown one as one that will pass.

    Twelve states: queued, provisioning, pulling, starting, running, stopping, stopped,
    migrating, failed, releasing, recycled, deleted. ``state_reason.code`` says why.
    """

    id = Prefixed("ins")
    name = serializers.CharField()
    slug = serializers.CharField()
    project_id = Prefixed("prj")
    state = serializers.CharField()
    state_at = Instant()
    state_reason = Anything()
    desired_state = serializers.CharField()
    mode = serializers.CharField()
    health = serializers.CharField()
    health_reason = serializers.CharField()
    locks = serializers.ListField(child=serializers.CharField())
    protected = serializers.BooleanField()
    deadline_at = Instant(allow_null=True)
    offer = serializers.CharField(source="offer_id")
    image = serializers.CharField(source="image_id")
    market = serializers.CharField()
    region = serializers.CharField()
    shape = Anything()
    disk_mib = serializers.IntegerField()
    command = serializers.ListField(child=serializers.CharField())
    env = serializers.DictField(child=serializers.CharField())
    secrets = serializers.ListField(child=serializers.CharField(), help_text="Names only.")
    ssh_key_ids = serializers.ListField(child=Prefixed("ssh"))
    password_login = serializers.BooleanField()
    auto_stop_at = Instant(allow_null=True, help_text="It is stopped then.")
    max_duration_s = serializers.IntegerField(
        allow_null=True, help_text="It is stopped so long after `session` became ready."
    )
    on_node_loss = serializers.CharField(help_text="`keep` or `replace`.")
    migrate_ok = serializers.BooleanField()
    actions = serializers.ListField(
        child=serializers.CharField(),
        source="shown_actions",
        help_text=(
            "What this key may ask of it in its present state: stop, start, restart, release, "
            "rename, protect, set_timers, set_ssh_keys, set_password_login, set_failover, "
            "reveal_password. A start may still lack money."
        ),
    )
    generation = serializers.IntegerField()
    observed_generation = serializers.IntegerField()
    session = serializers.IntegerField()
    exit_code = serializers.IntegerField(allow_null=True)
    first_ready_at = Instant(allow_null=True)
    created_at = Instant()
    deleted_at = Instant(allow_null=True)
    endpoints = EndpointOutput(many=True, source="shown_endpoints")
    notice = NoticeOutput(allow_null=True, source="shown_notice")
    operation = OperationOutput(
        allow_null=True, source="shown_operation", help_text="The one that is running."
    )
    waiting = WaitingOutput(allow_null=True, source="shown_request")


class InstanceQuery(PageQuery):
    state = Words(InstanceState.values, required=False)
    project_id = Prefixed("prj", required=False)
    search = Text(required=False, max_length=64, help_text="A part of the name or slug, or an id.")
    created_after = Instant(required=False)
    created_before = Instant(required=False)
    sort = serializers.ChoiceField(choices=["created_at", "-created_at"], default="-created_at")


class InstanceView(TenantView):
    """What the views of instances share: how to find, show and command one."""

    def shown(self, instances: list[Instance]) -> list[Instance]:
        return with_actions(with_facts(instances), self.caller.may)

    def find(self, instance_id: uuid.UUID) -> Instance:
        instance = Instance.objects.of(self.tenant_id).filter(pk=instance_id).first()
        if instance is None:
            raise Problem(404, "not_found")
        return instance

    def command(
        self, act: Callable[..., Instance], instance_id: uuid.UUID, if_generation: int | None
    ) -> Operation:
        """Give a command, and return the operation that carries it out."""
        instance = act(
            tenant_id=self.tenant_id,
            instance_id=instance_id,
            if_generation=if_generation,
            actor=self.caller.actor,
            now=self.now,
            request_id=self.request_id,
        )
        operations = Operation.objects.of(self.tenant_id).filter(instance_id=instance.pk)
        return operations.order_by("-id")[0]


class InstanceList(InstanceView):
    @operation(
        Contract(
            name="list_instances",
            summary="List instances, newest first",
            description="What was deleted is listed only when `state` names it.",
            verb="instances:read",
            output=InstanceOutput,
            shape="page",
            query=InstanceQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Instance]:
        found = Instance.objects.of(self.tenant_id)
        found = found.filter(state__in=query["state"]) if "state" in query else found.present()
        for name, lookup in (
            ("project_id", "project_id"),
            ("created_after", "created_at__gte"),
            ("created_before", "created_at__lt"),
        ):
            if name in query:
                found = found.filter(**{lookup: query[name]})
        if "search" in query:
            found = found.filter(matching(query["search"]))
        page = self.page(found, query, descending=query["sort"].startswith("-"))
        return Page(self.shown(page.rows), page.next_cursor)

    @operation(
        Contract(
            name="create_instances",
            summary="Order instances",
            description=(
                "Answers a list, also for one. Each instance waits in `queued` until there is a "
                "place for it; it costs nothing before it is ready."
            ),
            verb="instances:write",
            output=InstanceOutput,
            shape="list",
            status=201,
            body=InstanceInput,
            once=True,
            errors=(402, 404, 409, 503),
        )
    )
    def post(self, asked: dict[str, Any]) -> list[Instance]:
        if asked["secrets"] and not self.caller.may("secrets:read"):
            # Whoever starts an instance with a secret can read it there.
            error = FieldError("secrets", "forbidden", str(_("This needs secrets:read.")))
            raise Problem(403, "forbidden", errors=[error])
        made = services.create_instances(
            tenant_id=self.tenant_id,
            project_id=asked["project_id"],
            offer_code=asked["offer"],
            market=asked["market"],
            image_code=asked["image"],
            count=asked["count"],
            name=asked["name"],
            ssh_key_ids=asked["ssh_key_ids"],
            command=asked["command"],
            env=asked["env"],
            secrets=asked["secrets"],
            password_login=asked["password_login"],
            auto_stop_at=asked["auto_stop_at"],
            max_duration_s=asked["max_duration_s"],
            on_node_loss=asked["on_node_loss"],
            migrate_ok=asked["migrate_ok"],
            quote_id=asked["quote_id"],
            max_hourly_price=asked["max_hourly_price"],
            actor=self.caller.actor,
            now=self.now,
            request_id=self.request_id,
        )
        return self.shown(made)


class InstanceDetail(InstanceView):
    @operation(
        Contract(
            name="get_instance",
            summary="Get an instance",
            verb="instances:read",
            output=InstanceOutput,
            etag=True,
        )
    )
    def get(self, instance_id: uuid.UUID) -> Instance:
        return self.shown([self.find(instance_id)])[0]

    @operation(
        Contract(
            name="update_instance",
            summary="Change an instance",
            description=(
                "Keys and password log-in reach a running instance within seconds. Timers can be "
                "set from the order to the stop."
            ),
            verb="instances:write",
            output=InstanceOutput,
            body=InstanceChange,
            etag=True,
            if_match="required",
            errors=(409, 503),
        )
    )
    def patch(
        self, instance_id: uuid.UUID, asked: dict[str, Any], if_generation: int | None
    ) -> Instance:
        instance = services.update_instance(
            tenant_id=self.tenant_id,
            instance_id=instance_id,
            changes=cast(services.Changes, asked),
            if_generation=if_generation,
            actor=self.caller.actor,
            now=self.now,
            request_id=self.request_id,
        )
        return self.shown([instance])[0]

    @operation(
        Contract(
            name="delete_instance",
            summary="Release an instance and its disks",
            description="The same as POST release. Accepted in every state.",
            verb="instances:write",
            output=OperationOutput,
            status=202,
            if_match="optional",
            errors=(409,),
        )
    )
    def delete(self, instance_id: uuid.UUID, if_generation: int | None) -> Operation:
        return self.command(services.release_instance, instance_id, if_generation)


def _command(name: str, summary: str, description: str, *errors: int) -> Contract:
    return Contract(
        name=name,
        summary=summary,
        description=description,
        verb="instances:write",
        output=OperationOutput,
        status=202,
        once=True,
        if_match="optional",
        errors=errors,
    )


class InstanceStop(InstanceView):
    @operation(
        _command(
            "stop_instance",
            "Stop an instance",
            "Billing of compute ends when this is accepted. Disks are kept.",
        )
    )
    def post(self, instance_id: uuid.UUID, if_generation: int | None) -> Operation:
        return self.command(services.stop_instance, instance_id, if_generation)


class InstanceStart(InstanceView):
    @operation(
        _command(
            "start_instance",
            "Start an instance that is stopped or failed",
            "It waits for its place on the node where its disks are.",
            402,
        )
    )
    def post(self, instance_id: uuid.UUID, if_generation: int | None) -> Operation:
        return self.command(services.start_instance, instance_id, if_generation)


class InstanceRestart(InstanceView):
    @operation(
        _command(
            "restart_instance",
            "Restart a running instance",
            "A new run begins: nothing is billed until it is ready again.",
            402,
        )
    )
    def post(self, instance_id: uuid.UUID, if_generation: int | None) -> Operation:
        return self.command(services.restart_instance, instance_id, if_generation)


class InstanceRelease(InstanceView):
    @operation(
        _command(
            "release_instance",
            "Release an instance and its disks",
            "Accepted in every state; all costs end now.",
        )
    )
    def post(self, instance_id: uuid.UUID, if_generation: int | None) -> Operation:
        return self.command(services.release_instance, instance_id, if_generation)
