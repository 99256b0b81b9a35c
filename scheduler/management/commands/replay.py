"""Which placement policy suits a region: its last weeks, replayed offline."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from rental.records.clock import database_now
from scheduler.services.replay import replay_requests


class Command(BaseCommand):
    help = "Replay a region's requests under every placement policy and say which suits it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("region", help="the region's code")
        parser.add_argument("--days", type=int, default=28, help="how far to look back")

    def handle(self, *args: Any, **options: Any) -> None:
        region, days = options["region"], options["days"]
        try:
            verdict = replay_requests(region=region, days=days, now=database_now())
        except ValueError as error:
            raise CommandError(f"{error}; nothing was changed. Try --days {days * 2}.") from None
        self.stdout.write(f"{'policy':<14}{'allocated':>11}{'refused':>10}{'of large jobs':>15}")
        for name, outcome in verdict.outcomes.items():
            self.stdout.write(
                f"{name:<14}{outcome.allocated:>10.2f}%{outcome.refused:>9.2f}%"
                f"{outcome.refused_large:>14.2f}%"
            )
        self.stdout.write(f"{verdict.suits} suits {region}; the admin sets it there.")
