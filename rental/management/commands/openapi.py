"""``manage.py openapi``: write, check and compare the committed OpenAPI document."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from rental.api.compat import breaking
from rental.api.docs import OPENAPI
from rental.api.schema import build, text_of


class Command(BaseCommand):
    help = "Write docs/openapi.json; --check compares it with the code; --base finds breaks."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="fail if the file is stale")
        parser.add_argument(
            "--base", type=Path, help="an older document; fail if its clients would break"
        )

    def handle(self, *args: Any, check: bool, base: Path | None, **options: Any) -> None:
        document = build()
        if base is not None:
            breaks = breaking(json.loads(base.read_text(encoding="utf-8")), document)
            if breaks:
                raise CommandError("clients would break:\n" + "\n".join(breaks))
        if not check:
            if base is None:
                OPENAPI.write_text(text_of(document), encoding="utf-8")
            return
        committed = OPENAPI.read_text(encoding="utf-8") if OPENAPI.exists() else ""
        if committed != text_of(document):
            raise CommandError(f"{OPENAPI.name} is stale: run manage.py openapi and commit it")
