"""
How a person is reached: an e-mail address or a mobile phone number, typed into one field. Pure.

People write numbers with spaces, hyphens, full-width digits and without the country; whatever is
kept and compared is the one form that this module makes.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from rental.tenants.errors import MalformedContact

# Numbers without a country are Chinese: the console's first users type eleven digits.
COUNTRY: Final = "+86"
_NOISE: Final = re.compile(r"[\s().\-–—]")
_INTERNATIONAL: Final = re.compile(r"\+[1-9][0-9]{6,14}")
# A code goes to a mobile; a Chinese land line is a typing error.
_CHINESE_MOBILE: Final = re.compile(r"\+861[3-9][0-9]{9}")


@dataclass(frozen=True)
class Contact:
    """``value``: an address in lower case, or a number as ``+`` and digits."""

    kind: Literal["email", "phone"]
    value: str

    def __str__(self) -> str:
        return self.value

    @property
    def masked(self) -> str:
        """Return it as strangers may see it: enough to recognise, too little to use."""
        if self.kind == "email":
            name, _, host = self.value.partition("@")
            return f"{name[:1]}…@{host}"
        return f"{self.value[:-8]}…{self.value[-4:]}"


def kept_contact(value: str) -> Contact:
    """Return the contact whose ``value`` stands in a column."""
    return Contact("email" if "@" in value else "phone", value)


def parse_contact(text: str) -> Contact:
    """
    Read what a person typed.

    :raises MalformedContact: if it is neither an address nor a mobile number
    """
    typed = unicodedata.normalize("NFKC", text).strip()
    if "@" in typed:
        return Contact("email", _address(typed))
    return Contact("phone", parse_phone(typed))


def parse_phone(text: str) -> str:
    """
    Return a number in international form; ``00`` stands for ``+``, no country for China.

    :raises MalformedContact: if it is no mobile number
    """
    digits = _NOISE.sub("", unicodedata.normalize("NFKC", text))
    if digits.startswith("00"):
        digits = f"+{digits[2:]}"
    elif re.fullmatch(r"861[3-9][0-9]{9}", digits):
        digits = f"+{digits}"
    elif not digits.startswith("+"):
        digits = f"{COUNTRY}{digits}"
    shape = _CHINESE_MOBILE if digits.startswith(COUNTRY) else _INTERNATIONAL
    if not shape.fullmatch(digits):
        raise MalformedContact(text)
    return digits


def _address(typed: str) -> str:
    address = typed.lower()
    try:
        validate_email(address)
    except ValidationError:
        raise MalformedContact(typed) from None
    if len(address) > 254:
        raise MalformedContact(typed)
    return address
