"""What is documented is what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READER = re.compile(r"""\benv_[a-z]+\(\s*["']([A-Z][A-Z0-9_]*)["']""")
ENTRY = re.compile(r"^#? ?([A-Z][A-Z0-9_]*)=", re.M)
ROW = re.compile(r"^\| `([A-Z][A-Z0-9_]*)` \|", re.M)
# Read elsewhere than in config/settings.py: by `manage.py up` and by the processes it watches.
OTHERS = {"DATABASE_OWNER_URL", "WEB_PROCESSES", "ALIVE_FILE"}
PINNED = re.compile(r"^([A-Za-z0-9-]+)(\[[a-z,]+\])?[<>=~]?", re.M)


def settings_read():
    return set(READER.findall((ROOT / "config/settings.py").read_text()))


def test_every_setting_is_in_the_example_file():
    assert settings_read() <= set(ENTRY.findall((ROOT / ".env.example").read_text()))


def test_every_setting_is_documented():
    assert settings_read() <= set(ROW.findall((ROOT / "docs/settings.md").read_text()))


def test_no_documented_setting_is_dead():
    known = settings_read() | OTHERS

    assert set(ROW.findall((ROOT / "docs/settings.md").read_text())) <= known
    assert set(ENTRY.findall((ROOT / ".env.example").read_text())) <= known


def test_every_dependency_has_its_reason():
    reasons = (ROOT / "docs/dependencies.md").read_text().lower()
    named = [
        match.group(1).lower()
        for path in (ROOT / "requirements").glob("*.in")
        for line in path.read_text().splitlines()
        if line and not line.startswith(("#", "-")) and (match := PINNED.match(line))
    ]

    assert [name for name in named if name not in reasons] == []


def test_lock_files_name_no_registry_and_hash_everything():
    for path in (ROOT / "requirements").glob("*.lock"):
        text = path.read_text()
        packages = re.findall(r"^[a-z0-9-]+(?:\[[a-z,]+\])?==.*\\$", text, re.M)
        assert "://" not in text, path.name
        assert len(re.findall(r"^[a-z0-9.-]+(?:\[[a-z,]+\])?==", text, re.M)) == len(packages)


def test_the_glossary_explains_the_words_of_the_design():
    text = (ROOT / "docs/glossary.md").read_text().lower()

    for word in ("tenant", "allocation", "run", "stretch", "segment", "tick", "residence", "hold"):
        assert word in text
