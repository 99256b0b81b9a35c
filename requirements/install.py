"""
Install lock files with pip and say how far it is: ``python requirements/install.py A.lock B.lock``.

Run by the environment's own Python. Plain pip is silent for half a minute or prints a hundred
lines; this prints one that counts, and pip's own words only when it fails.
"""

import re
import subprocess
import sys
from pathlib import Path

PINNED = re.compile(r"^[A-Za-z0-9._-]+(\[.*\])?==", re.M)


def main(locks: list[str]) -> int:
    names = {match.group() for lock in locks for match in PINNED.finditer(Path(lock).read_text())}
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--no-input", "--progress-bar", "off", "--require-hashes"]
    for lock in locks:
        command += ["-r", lock]
    pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert pip.stdout is not None
    lines, seen = [], 0
    for line in pip.stdout:
        lines.append(line)
        if line.startswith("Collecting "):
            seen += 1
            _show(f"  {seen} of about {len(names)}: {line.split()[1].split('==')[0]}")
        elif line.startswith("Installing collected"):
            _show("  unpacking ...")
    code = pip.wait()
    _show("  installed" if code == 0 else "  failed")
    print()
    if code != 0:
        print("".join(lines[-30:]))
    return code


def _show(text: str) -> None:
    """Replace the line on a terminal; elsewhere only the ends of it would be noise."""
    if sys.stdout.isatty():
        print(f"\r{text:<60}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
