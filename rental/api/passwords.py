"""The password of an instance: shown on request, never stored in an answer."""

import uuid
from typing import Any

from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.fields import Flag, Input, Output, Prefixed
from rental.instances.services import reveal_password


class PasswordInput(Input):
    rotate = Flag(default=False, help_text="Make a new one; the old one opens nothing any more.")


class PasswordOutput(Output):
    """What opens the instance over SSH, beside its keys. Answers are not to be cached."""

    instance_id = Prefixed("ins")
    password = serializers.CharField()


class InstancePassword(TenantView):
    # No Idempotency-Key: no answer with a password is kept, and showing it twice changes nothing.
    @operation(
        Contract(
            name="reveal_password",
            summary="Show the password of an instance, or change it",
            description=(
                "Refused while `password_login` is off. Each showing is audited. A new password "
                "holds as soon as the node has heard of it; who is logged in stays."
            ),
            verb="instances:write",
            output=PasswordOutput,
            body=PasswordInput,
            errors=(409, 503),
        )
    )
    def post(self, instance_id: uuid.UUID, asked: dict[str, Any]) -> dict[str, Any]:
        instance, password = reveal_password(
            tenant_id=self.tenant_id,
            instance_id=instance_id,
            rotate=asked["rotate"],
            actor=self.caller.actor,
            now=self.now,
            request_id=self.request_id,
        )
        return {"instance_id": instance.pk, "password": password}
