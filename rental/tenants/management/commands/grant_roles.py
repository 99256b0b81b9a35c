"""`manage.py grant_roles`: run by the owner after each migrate; changes nothing when repeated."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from rental.records import grants


class Command(BaseCommand):
    help = "Grant the database roles of the app and of readers what they may do, and no more."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--app", default=grants.APP, help="role of web, gateway and workers")
        parser.add_argument("--reader", default=grants.READER, help="role for reports")

    def handle(self, *, app: str, reader: str, **options: Any) -> None:
        try:
            done = grants.grant_roles(app=app, reader=reader)
        except grants.UnsafeRole as error:
            raise CommandError(str(error)) from error
        for role in (app, reader):
            state = "granted" if role in done else "does not exist; nothing to do"
            self.stdout.write(f"{role}: {state}")
