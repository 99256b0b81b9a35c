"""What a browser says it is, in two words that its owner knows. Pure."""

import re
from typing import Final

# The first that fits: Edge says that it is Chrome, and Chrome that it is Safari.
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("MicroMessenger", "WeChat"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS: Final = (
    ("iPhone|iPad", "iOS"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def name_browser(agent: str) -> str:
    """Return ``Chrome, Linux``; of what nobody knows, the first words that it says of itself."""
    found = [
        next((name for mark, name in table if re.search(mark, agent)), "")
        for table in (_BROWSERS, _SYSTEMS)
    ]
    return ", ".join(filter(None, found)) or agent[:40] or "?"
