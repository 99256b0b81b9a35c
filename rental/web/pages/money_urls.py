"""Addresses of the overview, of billing, keys and the audit log, below a tenant's."""

from django.urls import path

from rental.web import converters  # noqa: F401  # registers <ssh:…>, <key:…>, <sec:…>
from rental.web.pages import audit, overview
from rental.web.pages.billing import balance, charges, charges_file, ledger
from rental.web.pages.keys import api, secrets, ssh

urlpatterns = [
    path("", overview.show_overview, name="overview"),
    path("overview/now", overview.show_now),
    path("overview/month", overview.show_month),
    path("billing", balance.show_balance, name="billing"),
    path("billing/transfers", ledger.show_transfers, name="transfers"),
    path("billing/transfers.csv", ledger.download_transfers),
    path("billing/charges", charges.show_charges, name="charges"),
    path("billing/charges.csv", charges_file.download_charges),
    path("keys", ssh.ssh_keys, name="keys"),
    path("keys/ssh/<ssh:ssh_key_id>/remove", ssh.remove_key),
    path("keys/api", api.api_keys, name="api_keys"),
    path("keys/api/<key:api_key_id>/revoke", api.revoke_key),
    path("keys/secrets", secrets.secrets, name="secrets"),
    path("keys/secrets/<sec:secret_id>/remove", secrets.remove_kept),
    path("audit", audit.show_audit, name="audit"),
    path("audit.csv", audit.download_audit),
]
