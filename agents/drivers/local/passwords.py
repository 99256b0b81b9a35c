"""Compare a password with a digest of crypt(3): ``$7$``, scrypt. Pure."""

import hashlib
import hmac

ITOA64 = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KEY = 32
# More than anybody is asked to remember; and what one comparison may cost: N x r x 128 bytes.
LONGEST = 256
MOST_WORK = 1 << 18


def is_password(password: str, digest: str) -> bool:
    """
    Say whether the digest is this password's; False for what is no digest of this form.

    Source: libxcrypt, crypt-scrypt.c
    """
    try:
        cost, block, parallel, salt, key = _parts(digest)
    except (ValueError, IndexError):
        return False
    if len(password) > LONGEST or (block << cost) * parallel > MOST_WORK:
        return False
    found = hashlib.scrypt(
        password.encode(errors="replace"),
        salt=salt.encode(),
        n=1 << cost,
        r=block,
        p=parallel,
        maxmem=MOST_WORK * 256,
        dklen=KEY,
    )
    return hmac.compare_digest(_encode(found).encode(), key.encode())


def _parts(digest: str) -> tuple[int, int, int, str, str]:
    """Return (log2 N, r, p, salt, key). :raises ValueError, IndexError: if it is none"""
    empty, kind, rest, key = digest.split("$")
    setting, salt = rest[:11], rest[11:]
    numbers = [ITOA64.index(letter) for letter in setting]
    if empty or kind != "7" or len(numbers) != 11 or not key.isascii():
        raise ValueError(digest[:3])
    return numbers[0], _number(numbers[1:6]), _number(numbers[6:]), salt, key


def _number(letters: list[int]) -> int:
    return sum(value << (6 * place) for place, value in enumerate(letters))


def _encode(key: bytes) -> str:
    """Three bytes become four letters, the low bits first."""
    text = ""
    for at in range(0, len(key), 3):
        part = key[at : at + 3]
        number = int.from_bytes(part, "little")
        text += "".join(ITOA64[number >> shift & 63] for shift in range(0, 8 * len(part), 6))
    return text
