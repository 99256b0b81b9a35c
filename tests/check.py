"""
Checks that need Django and are no tests of behavior: ``python -m tests.check migrations|openapi``.

CI, `make check` and tests/house/test_broken_copies.py (which breaks each in a copy) run these.
"""

import os
import sys


def main(what: str) -> None:
    # Neither touches the database; the settings only want to know where it would be.
    os.environ.setdefault("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django
    from django.core.management import call_command

    django.setup()
    if what == "migrations":
        call_command("makemigrations", "--check", "--dry-run", skip_checks=True)
    elif what == "openapi":
        from tests.openapi_file import complaints

        if wrong := complaints():
            sys.exit("\n".join(wrong))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
