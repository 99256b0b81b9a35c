"""Where static files lie: under names that carry their hash once they are collected."""

from typing import Any

from whitenoise.storage import CompressedManifestStaticFilesStorage


class CollectedStatic(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # untyped
    """
    After `collectstatic` (the image does it) files are compressed and their names carry a hash, so
    that browsers keep them for good. Without it (demo, tests, development) names are plain, files
    come from where they are written, and browsers ask again after a minute.
    """

    manifest_strict = False

    def stored_name(self, name: str) -> str:
        known: dict[str, Any] = self.hashed_files
        return str(known.get(self.hash_key(self.clean_name(name)), name))
