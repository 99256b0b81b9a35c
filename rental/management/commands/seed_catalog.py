"""Fill the catalogue from the data files; a second run changes nothing."""

from typing import Any

from django.core.management.base import BaseCommand

from rental.catalog.seed import seed_catalog
from rental.records.clock import database_now


class Command(BaseCommand):
    help = "Make the regions, GPU models, images, offers and first prices that are missing."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"catalogue: {seed_catalog(now=database_now())}")
