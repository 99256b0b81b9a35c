"""
The same decisions, compiled: numba makes machine code of these files where it is installed.

Everything here repeats what the files above say in NumPy, node by node; tests/scheduler compares
the two on random fleets. Without numba nothing of this is imported.
"""

from importlib.util import find_spec
from typing import Final

IS_HERE: Final = find_spec("numba") is not None
