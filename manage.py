#!/usr/bin/env python
"""The front door of the server: every command of Django and of Tessera."""

import os
import sys


def main() -> None:
    if sys.argv[1:2] == ["up"]:
        # A parent of processes; it needs no Django, and Django would need the database it starts.
        from config.supervisor.main import main as up

        sys.exit(up(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
