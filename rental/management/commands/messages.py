"""`manage.py messages`: collect what people read into locale/, and compile it; or check both."""

import re
import subprocess
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

LANGUAGE = "zh_Hans"
NOT_OURS = (".venv", "node_modules", "var", "static", "tests", "benchmarks", "docs", "agents")
# Says when it was collected; it would make every run a change.
_COLLECTED_AT = re.compile(r'^"POT-Creation-Date: .*\n', re.M)


class Command(BaseCommand):
    help = (
        "Collect the texts of code and templates, and compile their translations (needs gettext)."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing; fail if it would")

    def handle(self, *, check: bool, **options: Any) -> None:
        source = Path(settings.LOCALE_PATHS[0]) / LANGUAGE / "LC_MESSAGES" / "django.po"
        compiled = source.with_suffix(".mo")
        before = (source.read_bytes(), compiled.read_bytes()) if source.exists() else (b"", b"")
        try:
            _collect(source)
            _compile(source, compiled)
            changed = (source.read_bytes(), compiled.read_bytes()) != before
            missing = _entries(source, "--untranslated") + _entries(source, "--only-fuzzy")
        finally:
            if check:
                source.write_bytes(before[0])
                compiled.write_bytes(before[1])
        for text in missing[:40]:
            self.stderr.write(f"not translated: {text}")
        if check and changed:
            raise CommandError("locale/ is stale: manage.py messages, translate, and commit it")
        if check and missing:
            raise CommandError(f"{len(missing)} texts have no translation in {LANGUAGE}")
        self.stdout.write(f"{len(missing)} texts wait for a translation")


def _collect(source: Path) -> None:
    call_command(
        "makemessages",
        locale=[LANGUAGE],
        extensions=["html", "txt", "py"],
        ignore_patterns=[f"{name}/*" for name in NOT_OURS],
        no_location=True,
        no_wrap=True,
        no_obsolete=True,
        verbosity=0,
    )
    source.write_text(_COLLECTED_AT.sub("", source.read_text()))


def _compile(source: Path, compiled: Path) -> None:
    made = subprocess.run(
        ["msgfmt", "--check-format", "-o", str(compiled), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise CommandError(made.stderr)


def _entries(source: Path, kind: str) -> list[str]:
    found = subprocess.run(
        ["msgattrib", kind, "--no-obsolete", "--no-wrap", str(source)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [m for m in re.findall(r'^msgid "(.+)"$', found, re.M) if m]
