"""A tenant with things on sale and browsers of its people, for the tests of pages of instances."""

import json
import re
import uuid
from html import unescape

from django.test import Client

from rental.instances import passes
from rental.records.clock import database_now
from rental.records.ids import to_text
from rental.tenants.models import Role
from tests.factories.rental import (
    fresh,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    make_running,
    order,
    says,
)
from tests.factories.tenants import make_member, owner_of

HTMX = {"HX-Request": "true"}


class Rented:
    """``now`` is about the database's: pages go by its clock."""

    def __init__(self, *, gpus=2):
        self.now = database_now()
        make_offer(now=self.now)
        make_image()
        self.node = make_node(gpus=gpus, now=self.now)
        self.tenant = make_rich_tenant(now=self.now)
        self.owner = owner_of(self.tenant)

    @property
    def home(self) -> str:
        return f"/t/{self.tenant.slug}/instances"

    def url(self, instance, rest="") -> str:
        return f"{self.home}/{to_text('ins', instance.pk)}{rest}"

    def browser(self, user=None, *, htmx=False) -> Client:
        client = Client(headers=HTMX if htmx else None)
        user = user or self.owner
        type(user).objects.filter(pk=user.pk).update(language="en")
        client.force_login(user)
        return client

    def member(self, role=Role.VIEWER):
        return make_member(self.tenant, role)

    def running(self, **rest):
        return make_running(self.tenant, now=self.now, **rest)

    def queued(self, **rest):
        return order(self.tenant, now=self.now, **rest)[0]

    def failed(self, *, detail="image pull: no such manifest", **rest):
        """One that its node could not start, with the node's own words."""
        instance = self.queued(**rest)
        passes.place(now=self.now)
        says(instance, "accepted", now=self.now)
        says(instance, "failed", now=self.now, reason="start_failed", detail=detail)
        return fresh(instance)

    def command(self, client, instance, word, **fields):
        """Press the button of a dialog that was drawn just now."""
        sent = {"generation": fresh(instance).generation, "once": uuid.uuid4().hex} | fields
        return client.post(self.url(instance, f"/{word}"), sent)


def events_of(response) -> dict:
    """What the answer fires in the browser."""
    return json.loads(response.headers.get("HX-Trigger", "{}"))


def text_of(response) -> str:
    """The page's words, one space between them."""
    html = re.sub(r"</?(strong|code|time)\b[^>]*>", "", response.content.decode())
    words = re.sub(r"<(script|style|template)\b.*?</\1>", " ", html, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", words)).split())
