"""
Run several commands of manage.py in one process (``python -m config.supervisor.commands A B``):
loading Django once costs a second less for each of them.
"""

import os
import shlex
import sys


def main(lines: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django
    from django.core.management import call_command, get_commands

    django.setup()
    for line in lines:
        name, *arguments = shlex.split(line)
        if name not in get_commands():
            print(f"{name}: no such command yet")
            continue
        call_command(name, *arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
