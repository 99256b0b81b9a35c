"""
numba's ``njit`` with a memory that an upgrade cannot fool.

numba keeps what it has compiled, and to see whether that is old it looks at the file of a function
alone, not at the files of what it calls: after an upgrade, code of before would decide. So it is
kept under a name made of all the sources.
"""

import hashlib
from pathlib import Path

from numba import config, njit

__all__ = ["name_of_sources", "njit"]


def name_of_sources(folder: Path) -> str:
    """Return a name that changes with every source from which machine code is made."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.py"), *folder.parent.glob("*.py")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


if not config.CACHE_DIR:  # type: ignore[attr-defined]  # unless who runs us has chosen one
    _here = Path(__file__).parent
    config.CACHE_DIR = str(_here / "__pycache__" / name_of_sources(_here))  # type: ignore[attr-defined]
