"""``manage.py audit_ledger``: re-derive all money and say what is wrong."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from billing.services.audit import find_errors
from rental.records.clock import database_now


class Command(BaseCommand):
    help = "Compare wallets, charges and transfers with what was proven. Exit code 1 on any error."

    def handle(self, *args: Any, **options: Any) -> None:
        findings = find_errors(now=database_now())
        for finding in findings:
            self.stdout.write(str(finding))
        if findings:
            self.stdout.write(f"{len(findings)} errors in the ledger.")
            sys.exit(1)
        self.stdout.write("The ledger is right.")
