"""Reading OpenSSH public keys. Pure."""

import base64
import hashlib
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from rental.tenants.errors import MalformedSshKey

# What OpenSSH's sshd accepts by default; ssh-dss is gone there too, certificates are not keys.
ALGORITHMS: Final = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)
# RFC 8332 and OpenSSH's RequiredRSASize default to less; below this NIST SP 800-57 ended in 2013.
MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 16384  # OpenSSH's own limit
MAX_TEXT: Final = 8192  # characters; a 16384-bit RSA key takes 2,800


@dataclass(frozen=True)
class PublicKey:
    """``text``: algorithm and base64, nothing else. ``fingerprint``: as ``ssh-keygen -lf``."""

    text: str
    fingerprint: str
    comment: str


def parse_public_key(text: str) -> PublicKey:
    """
    Read one line of an ``id_*.pub`` file.

    Options are refused, not dropped: whoever pasted ``from="10.0.0.0/8" ssh-ed25519 …`` counts on
    them, and we do not carry them to the instance.

    :raises MalformedSshKey: with a word for the reason
    """
    if "PRIVATE KEY" in text:
        raise MalformedSshKey(
            "private_key", "this is a private key; keep it to yourself and paste the .pub file"
        )
    line = text.strip()
    if len(line) > MAX_TEXT:
        raise MalformedSshKey("malformed", "this is too long for a public key")
    if not line.isprintable():  # line breaks and control characters would end up in files
        raise MalformedSshKey("lines", "a public key is one line of text")
    algorithm, _, rest = line.partition(" ")
    blob_text, _, comment = rest.strip().partition(" ")
    if algorithm not in ALGORITHMS:
        raise _not_an_algorithm(algorithm, line)
    try:
        blob = base64.b64decode(blob_text, validate=True)
        canonical = f"{algorithm} {base64.b64encode(blob).decode()}"
        key = load_ssh_public_key(canonical.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise MalformedSshKey("malformed", "this is no whole public key") from error
    if isinstance(key, RSAPublicKey) and not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        raise MalformedSshKey(
            "too_short", f"an RSA key has {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, not {key.key_size}"
        )
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return PublicKey(text=canonical, fingerprint=f"SHA256:{digest}", comment=comment.strip())


def _not_an_algorithm(first: str, line: str) -> MalformedSshKey:
    if ALGORITHMS.intersection(line.split()):
        return MalformedSshKey("options", "options before the key are not taken")
    if first.startswith(("ssh-", "ecdsa-", "sk-")):
        return MalformedSshKey("algorithm", f"keys of the kind {first[:40]} are not taken")
    return MalformedSshKey("malformed", "a public key begins with its kind, as in ssh-ed25519 …")
