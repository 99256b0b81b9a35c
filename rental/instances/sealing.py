"""
Seal values into their rows, and open them: AES-256-GCM with a random nonce. Table, column, row and
tenant are authenticated with the value, so that a ciphertext copied to another row does not open
there. Plain values stand in no table, exception, log line or audit event.
"""

import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from rental.instances.errors import SecretsNotSetUp, SecretUnreadable
from rental.instances.models import Sealed

NONCE = 12  # bytes, as NIST SP 800-38D wants it


def check_key() -> None:
    """:raises SecretsNotSetUp: if the deployment has no SECRETS_KEY"""
    _key()


def seal(row: Sealed, value: str) -> None:
    """
    Put the value into the row, which has its id and tenant already; the caller saves it.

    :raises SecretsNotSetUp: if the deployment has no SECRETS_KEY
    """
    key, nonce = _key(), os.urandom(NONCE)
    row.ciphertext = nonce + AESGCM(key).encrypt(nonce, value.encode(), _bound_to(row))
    row.key_id = _id_of(key)


def unseal(row: Sealed, name: str) -> str:
    """
    Return the row's value.

    :raises SecretsNotSetUp, SecretUnreadable: none says more than ``name``
    """
    key = _key()
    if row.key_id != _id_of(key):
        raise SecretUnreadable(name, f"sealed with the key {row.key_id}, not {_id_of(key)}")
    sealed = bytes(row.ciphertext)
    try:
        opened = AESGCM(key).decrypt(sealed[:NONCE], sealed[NONCE:], _bound_to(row))
    except InvalidTag:
        raise SecretUnreadable(name, "not what was written into this row") from None
    return opened.decode()


def _key() -> bytes:
    key: bytes | None = settings.SECRETS_KEY
    if key is None:
        raise SecretsNotSetUp
    return key


def _id_of(key: bytes) -> str:
    """Name a key without telling it; hashed with words of its own."""
    return hashlib.sha256(b"tessera secrets key id\0" + key).hexdigest()[:16]


def _bound_to(row: Sealed) -> bytes:
    where = (row._meta.db_table, "ciphertext", str(row.id), str(row.tenant_id))
    return "\0".join(where).encode()
