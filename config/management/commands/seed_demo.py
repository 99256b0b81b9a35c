"""`manage.py seed_demo`: logins, a tenant with money, an API key and enrolment tokens, once."""

import json
import secrets
from argparse import ArgumentParser
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from billing.services.wallets import credit
from config.supervisor.state import write_private
from rental.records.audit import Actor
from rental.records.clock import database_now
from rental.tenants.models import Tenant, User
from rental.tenants.services.api_keys import issue_api_key
from rental.tenants.services.tenants import create_tenant
from rental.tenants.services.users import create_user
from scheduler.models import Zone
from scheduler.services.enrolment import issue_token

OPERATOR, CUSTOMER = "operator@demo.example", "customer@demo.example"
CREDIT = 500_000_000  # 500 CNY in micro-units: a hundred hours of the dearest single card
TOKEN_LIFE = timedelta(hours=1)
ACTOR = Actor(kind="system", id="seed_demo")


class Command(BaseCommand):
    help = "Fill an empty deployment with what a first look needs. Safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--file", type=Path, required=True, help="where the secrets are kept")
        parser.add_argument("--tokens", type=int, default=0, help="enrolment tokens to issue")

    def handle(self, *, file: Path, tokens: int, **options: Any) -> None:
        known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        now = database_now()
        with transaction.atomic():
            made = self._seed(known, now=now)
            made["tokens"] = [
                issue_token(zone=zone, uses=1, expires_at=now + TOKEN_LIFE, actor=ACTOR, now=now)
                for zone in Zone.objects.order_by("code")[:1]
                for _ in range(tokens)
            ]
            # Inside the transaction: rows without the file would lock their owner out for good.
            write_private(file, json.dumps(made, indent=1) + "\n")

    def _seed(self, known: dict[str, Any], *, now: datetime) -> dict[str, Any]:
        if known and Tenant.objects.filter(slug=known["tenant"]).exists():
            return known
        passwords = {name: secrets.token_urlsafe(9) for name in ("operator", "customer")}
        operator = _login(OPERATOR, "Operator", passwords["operator"], staff=True, now=now)
        customer = _login(CUSTOMER, "Customer", passwords["customer"], staff=False, now=now)
        tenant = create_tenant(name="Demo", slug="demo", owner=customer, now=now)
        credit(
            tenant_id=tenant.id,
            amount=CREDIT,
            reason="Money to play with",
            actor=ACTOR,
            key="seed_demo",
            now=now,
        )
        _row, api_key = issue_api_key(
            tenant=tenant,
            name="Demo",
            scopes=["*"],
            expires_at=None,
            created_by=customer,
            actor=ACTOR,
            now=now,
        )
        return {
            "operator": {"email": operator.email, "password": passwords["operator"]},
            "customer": {"email": customer.email, "password": passwords["customer"]},
            "tenant": tenant.slug,
            "api_key": api_key,
        }


def _login(email: str, name: str, password: str, *, staff: bool, now: datetime) -> User:
    return create_user(
        email=email,
        name=name,
        password=password,
        language="",  # none chosen: the browser's, until he chooses one
        is_staff=staff,
        is_superuser=staff,
        actor=ACTOR,
        now=now,
    )
