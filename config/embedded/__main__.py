"""``python -m config.embedded forget FOLDER``: remove what a deployment keeps outside FOLDER."""

import sys
from pathlib import Path

from config.embedded.places import forget

if len(sys.argv) != 3 or sys.argv[1] != "forget":
    sys.exit(__doc__)
forget(Path(sys.argv[2]))
