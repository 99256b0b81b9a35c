"""
Passwords of instances: made here, shown on request, never sent. A node gets a digest of crypt(3)
($7$, scrypt), which any Linux log-in understands, so that no password rests on a node.
"""

import hashlib
import secrets
from datetime import datetime
from typing import Final

from rental.instances.errors import PasswordLoginOff
from rental.instances.models import Instance, InstancePassword
from rental.instances.naming import LETTERS
from rental.instances.sealing import seal, unseal
from rental.records.ids import new_id

LENGTH: Final = 20  # of 27 letters that look like nothing else: 95 bits
# log2(N), r and p of scrypt. Small on purpose: 95 random bits need no stretching, and the check
# runs in the instance, which may have a tenth of a core.
COST, BLOCK, PARALLEL = 12, 8, 1
SALT = 22
_ITOA64 = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def give_password(instance: Instance, *, now: datetime) -> InstancePassword:
    """
    Give a locked instance a new password, in place of the one it may have.

    :raises SecretsNotSetUp: if the deployment has no SECRETS_KEY
    """
    row = InstancePassword.objects.filter(instance=instance).first()
    is_new = row is None
    if row is None:
        row = InstancePassword(
            id=new_id(), tenant_id=instance.tenant_id, instance=instance, created_at=now
        )
    password = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
    seal(row, password)
    row.digest, row.updated_at = digest_of(password), now
    row.save(force_insert=is_new)
    return row


def forget_password(instance: Instance) -> None:
    InstancePassword.objects.filter(instance=instance).delete()


def read_password(instance: Instance) -> str:
    """
    Return the password, for the one answer that shows it.

    :raises PasswordLoginOff: if the instance has none
    :raises SecretsNotSetUp, SecretUnreadable: see ``sealing``
    """
    row = InstancePassword.objects.filter(instance=instance).first()
    if row is None or not instance.password_login:
        raise PasswordLoginOff
    return unseal(row, "password")


def digest_for_node(instance: Instance) -> str:
    """Return what the node compares a password with, "" for none."""
    if not instance.password_login:
        return ""
    rows = InstancePassword.objects.filter(instance=instance)
    return rows.values_list("digest", flat=True).first() or ""


def digest_of(password: str, salt: str | None = None) -> str:
    """
    Return ``$7$N r p salt$hash``, 80 characters.

    :param salt: letters of crypt(3)'s alphabet; random ones by default
    Source: libxcrypt, crypt-scrypt.c
    """
    salt = salt or "".join(secrets.choice(_ITOA64) for _ in range(SALT))
    key = hashlib.scrypt(
        password.encode(), salt=salt.encode(), n=1 << COST, r=BLOCK, p=PARALLEL, dklen=32
    )
    setting = _ITOA64[COST] + _encode(BLOCK, bits=30) + _encode(PARALLEL, bits=30)
    parts = (key[at : at + 3] for at in range(0, len(key), 3))
    text = "".join(_encode(int.from_bytes(part, "little"), bits=8 * len(part)) for part in parts)
    return f"$7${setting}{salt}${text}"


def _encode(number: int, *, bits: int) -> str:
    """Six bits a letter, the low ones first."""
    return "".join(_ITOA64[number >> shift & 63] for shift in range(0, bits, 6))
