"""A tenant that has rented for some hours: charges, an estimate, and the same figures by API."""

import json
from datetime import timedelta

from django.test import Client

from billing.models import Run
from billing.services.exhaust import close_exhausted
from billing.services.settle import settle
from tests.factories.billing import report
from tests.factories.rental import make_running
from tests.factories.tenants import make_api_key
from tests.web.rented import Rented

HOUR = timedelta(hours=1)
TICKS = 600  # of an hour


class Moneyed(Rented):
    """0.49 an hour for each instance; 1,000 at the beginning."""

    def ran(self, *, hours=2, more=300, **rest):
        """An instance that has run; ``hours`` are charged, ``more`` ticks are not yet."""
        began = self.now - hours * HOUR - more * timedelta(seconds=6)
        instance = make_running(self.tenant, now=began, **rest)
        run = Run.objects.get(instance_id=instance.pk)
        report(run, at=began, age_ms=0)
        for hour in range(1, hours + 1):
            report(run, (0, TICKS * hour), at=began + hour * HOUR)
            settle(now=began + hour * HOUR, tenant_ids=[self.tenant.id])
        if more:
            report(run, (0, TICKS * hours + more), at=self.now)
        close_exhausted(now=self.now)
        return instance

    def page(self, path="", *, user=None, htmx=False):
        return self.browser(user, htmx=htmx).get(f"/t/{self.tenant.slug}/{path}")

    def api(self, path):
        """What the API answers to the owner, as JSON."""
        _key, text = make_api_key(self.tenant)
        response = Client().get(f"/v1/{path}", headers={"Authorization": f"Bearer {text}"})
        assert response.status_code == 200
        return json.loads(response.content)
