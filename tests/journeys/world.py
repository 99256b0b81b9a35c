"""
Make tenants, keys and enrolment tokens in a running stack. Run as a script with the stack's
environment; prints one JSON object. Separate from pytest's own Django, which has its own database.
"""

import json
import os
import sys
from datetime import timedelta
from typing import Any


def main(wish: dict[str, Any]) -> dict[str, Any]:
    import django

    django.setup()

    from billing.services.wallets import credit
    from rental.records.audit import Actor
    from rental.records.clock import database_now
    from rental.tenants.permissions import VERBS
    from rental.tenants.services.api_keys import issue_api_key
    from rental.tenants.services.tenants import create_tenant
    from rental.tenants.services.users import create_user
    from scheduler.models import Zone
    from scheduler.services.enrolment import issue_token

    now = database_now()
    actor = Actor(kind="system", id="journey")
    made: dict[str, Any] = {"tenants": {}, "tokens": []}
    for slug, amount in wish.get("tenants", {}).items():
        user = create_user(email=f"{slug}@example.com", name=slug, actor=actor, now=now)
        tenant = create_tenant(name=slug, slug=slug, owner=user, now=now)
        if amount:
            credit(
                tenant_id=tenant.id,
                amount=amount,
                reason="journey",
                actor=actor,
                key=f"journey:{slug}",
                now=now,
            )
        _key, secret = issue_api_key(
            tenant=tenant,
            name="journey",
            scopes=sorted(VERBS),
            expires_at=None,
            created_by=user,
            actor=Actor(kind="user", id=str(user.id)),
            now=now,
        )
        made["tenants"][slug] = {"id": str(tenant.id), "key": secret}
    for _ in range(wish.get("tokens", 0)):
        zone = Zone.objects.order_by("pk").first()
        made["tokens"].append(
            issue_token(
                zone=zone, uses=1, expires_at=now + timedelta(hours=1), actor=actor, now=now
            )
        )
    return made


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.path.insert(0, os.getcwd())
    json.dump(main(json.load(sys.stdin)), sys.stdout)
