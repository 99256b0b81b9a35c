"""The people of a tenant: members and invitations."""

import uuid
from typing import Any

from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import Problem
from rental.api.fields import Input, Instant, Output, PageQuery, Prefixed, Text
from rental.records.paging import Page
from rental.tenants import services
from rental.tenants.contacts import parse_contact
from rental.tenants.models import Invitation, Membership, Role


class RoleInput(Input):
    role = serializers.ChoiceField(choices=Role.values)


class MemberOutput(Output):
    """``id`` is the user's: it names the same person in every tenant."""

    id = Prefixed("usr", source="user_id")
    name = serializers.CharField(source="user.name")
    email = serializers.CharField(source="user.email", allow_null=True)
    phone = serializers.CharField(source="user.phone", allow_null=True)
    role = serializers.CharField()
    created_at = Instant()


class PeopleView(TenantView):
    @property
    def acts_as(self) -> Role:
        """Who is an owner is for keys to decide that may change the tenant itself."""
        return Role.OWNER if self.caller.may("tenant:write") else Role.ADMIN

    def member(self, user_id: uuid.UUID) -> Membership:
        rows = Membership.objects.of(self.tenant_id).select_related("user", "tenant")
        member = rows.filter(user_id=user_id).first()
        if member is None:
            raise Problem(404, "not_found")
        return member


class MemberList(PeopleView):
    @operation(
        Contract(
            name="list_members",
            summary="List members",
            verb="members:read",
            output=MemberOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Membership]:
        return self.page(Membership.objects.of(self.tenant_id).select_related("user"), query)


class MemberDetail(PeopleView):
    @operation(
        Contract(
            name="get_member",
            summary="Get a member",
            verb="members:read",
            output=MemberOutput,
        )
    )
    def get(self, user_id: uuid.UUID) -> Membership:
        return self.member(user_id)

    @operation(
        Contract(
            name="change_member",
            summary="Give a member another role",
            description=(
                "Keys of the member shrink with the role at once. Owners come and go only by keys "
                "that hold `tenant:write` too; the last one stays."
            ),
            verb="members:write",
            output=MemberOutput,
            body=RoleInput,
            errors=(409,),
        )
    )
    def patch(self, user_id: uuid.UUID, asked: dict[str, Any]) -> Membership:
        member = self.member(user_id)
        changed = services.change_member_role(
            tenant=member.tenant,
            user=member.user,
            role=Role(asked["role"]),
            by=self.acts_as,
            actor=self.caller.actor,
            now=self.now,
        )
        changed.user = member.user
        return changed

    @operation(
        Contract(
            name="remove_member",
            summary="Remove a member",
            description=(
                "API and SSH keys of the member in this tenant end with the membership; instances "
                "run on. Owners go only by keys that hold `tenant:write` too; the last one stays."
            ),
            verb="members:write",
            output=None,
            shape="none",
            status=204,
            errors=(409,),
        )
    )
    def delete(self, user_id: uuid.UUID) -> None:
        member = self.member(user_id)
        services.remove_member(
            tenant=member.tenant,
            user=member.user,
            by=self.acts_as,
            actor=self.caller.actor,
            now=self.now,
        )


class InvitationInput(RoleInput):
    contact = Text(max_length=254, help_text="An e-mail address or a mobile phone number.")


class InvitationOutput(Output):
    """An invitation that is open. ``contact`` as it is kept: lower case, or + and digits."""

    id = Prefixed("inv")
    contact = serializers.CharField()
    role = serializers.CharField()
    created_at = Instant()
    expires_at = Instant()


class InvitationLinkOutput(InvitationOutput):
    """A new invitation. ``url`` is what to send to the person; it is shown this once."""

    url = serializers.CharField(
        allow_null=True, help_text="null when the answer is a replay: it is not stored."
    )


class InvitationList(PeopleView):
    @operation(
        Contract(
            name="list_invitations",
            summary="List open invitations",
            verb="members:read",
            output=InvitationOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Invitation]:
        return self.page(Invitation.objects.of(self.tenant_id).open(at=self.now), query)

    @operation(
        Contract(
            name="create_invitation",
            summary="Invite somebody",
            description=(
                "Nothing is sent: the answer has the link, good for 7 days and for the owner of "
                "the contact alone. An older invitation of the same contact ends."
            ),
            verb="members:write",
            output=InvitationLinkOutput,
            status=201,
            body=InvitationInput,
            once=True,
            secret="url",
        )
    )
    def post(self, asked: dict[str, Any]) -> Invitation:
        invitation, token = services.invite(
            tenant=self.caller.key.tenant,
            contact=parse_contact(asked["contact"]),
            role=Role(asked["role"]),
            invited_by=self.caller.key.created_by,
            by=self.acts_as,
            actor=self.caller.actor,
            now=self.now,
        )
        url = self.request.build_absolute_uri(f"/join/{token}")
        invitation.url = url  # type: ignore[attr-defined]  # shown once, in this answer
        return invitation


class InvitationDetail(PeopleView):
    @operation(
        Contract(
            name="revoke_invitation",
            summary="Revoke an invitation",
            verb="members:write",
            output=None,
            shape="none",
            status=204,
        )
    )
    def delete(self, invitation_id: uuid.UUID) -> None:
        services.revoke_invitation(
            tenant_id=self.tenant_id,
            invitation_id=invitation_id,
            actor=self.caller.actor,
            now=self.now,
        )
