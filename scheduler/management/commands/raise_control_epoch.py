"""After a restore or failover of the database: tell the agents that it went back in time."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from rental.records.clock import database_now
from scheduler.services.liveness import raise_control_epoch


class Command(BaseCommand):
    help = "Raise the control epoch after the database was restored or failed over."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", required=True, help="why, for the log")

    def handle(self, *args: Any, **options: Any) -> None:
        epoch = raise_control_epoch(now=database_now(), reason=options["reason"])
        self.stdout.write(f"The control epoch is {epoch}.")
