"""Ids: uuid7 in the column, prefixed Crockford base32 at the edges (`ins_01j9x2…`)."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Final

from uuid_utils.compat import uuid7

# One prefix a noun; the list is closed, so that a typo cannot mint ids nobody can read back.
# fmt: off
PREFIXES: Final = frozenset({
    "ten", "usr", "prj", "key", "ssh", "ins", "op", "quo", "req", "alc",
    "run", "seg", "chg", "trf", "nod", "gpu", "agt", "evt", "hld", "sec", "prc", "inv",
})
# fmt: on

# Crockford's alphabet has no i, l, o or u: nothing is mistaken when read aloud.
# Source: https://www.crockford.com/base32.html
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUE: Final = {letter: value for value, letter in enumerate(_ALPHABET)}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH: Final = 26  # 26 x 5 = 130 bits hold 128; the first letter is therefore at most 7


class MalformedId(ValueError):
    """The text is no id of the wanted kind."""

    def __init__(self, prefix: str, text: str) -> None:
        super().__init__(f"not an id of the form {prefix}_…: {text[:40]!r}")
        self.prefix, self.text = prefix, text


def new_id() -> uuid.UUID:
    """Return a fresh uuid7: ids made later sort later, so that indexes grow at their end."""
    return uuid7()


def first_id_at(moment: datetime) -> uuid.UUID:
    """Return the smallest id that can be made at ``moment``: where a part of an index begins."""
    milliseconds = max(0, (moment - _EPOCH) // timedelta(milliseconds=1))
    return uuid.UUID(int=milliseconds << 80 | 0x7 << 76 | 0b10 << 62)


def to_text(prefix: str, id: uuid.UUID) -> str:
    """Return ``id`` as its public text; texts of one prefix sort as their UUIDs do."""
    if prefix not in PREFIXES:
        raise ValueError(f"unknown id prefix {prefix!r}")
    number = id.int
    letters = [_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5)]
    return f"{prefix}_{''.join(letters)}"


def from_text(prefix: str, text: str) -> uuid.UUID:
    """
    Return the UUID that ``to_text`` wrote. Only the one canonical spelling is accepted, so an id
    can be compared as text (in logs, in caches) without surprises.

    :raises MalformedId: for another prefix, length, letter, case, or a number above 128 bits
    """
    head, _, letters = text.partition("_")
    if head != prefix or prefix not in PREFIXES or len(letters) != _LENGTH:
        raise MalformedId(prefix, text)
    number = 0
    for letter in letters:
        value = _VALUE.get(letter)
        if value is None:
            raise MalformedId(prefix, text)
        number = number << 5 | value
    if number >> 128:
        raise MalformedId(prefix, text)
    return uuid.UUID(int=number)
