"""OpenSSH public keys: what is taken, with ssh-keygen's fingerprints, and what is refused."""

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from rental.tenants.errors import MalformedSshKey
from rental.tenants.ssh import parse_public_key
from tests.factories.tenants import ED25519, ED25519_FINGERPRINT

pytestmark = pytest.mark.pure

# Made with ssh-keygen, fingerprints by `ssh-keygen -lf`; the private halves were thrown away.
# fmt: off
RSA_2048 = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC987oMcBhcadWwOVYtBTaqXfHB7Td4g7yuOlFU25fxn8QSi34U5Fzg2JNNVM3otL4hZJgHAFlJ9ZsZACltOws4DzHeCG5+RVUr8OhPxiqHDddn+zH/UUopMFwWFeoBI8Q1sW21xAnAp9+q/9dwNsH/i3lv5TfaEUYvC3Cp43tyxhVuwDN/aidineFnp0qL/w8V8BQNYOL4Ds8jAW2d1horriswU/f7XA8jnhWqahWSxlqqTqOj0ejqJfxnL1+Eu2wgOPC8VYdyJbZ0yh+8JBxfX6c08RcraIy706uD38xFeQmYK/RrdC2eejh+1X39IEwM7a4iuXIq9TI3GDXSQgj5"  # noqa: E501
RSA_2048_FINGERPRINT = "SHA256:3WvwfPLktIQ1CFDwwc0K92h57YVzYCKfV0G9UKiIj6c"
ECDSA_384 = "ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBAfnqJU4Za1S8EOgHSAhl3k5Uu1vzV3QDNrLg/SZ6vi/WBXyRYMuqnSeB033iofHGkx6pkgLL/iQQT6vDcDF2dImS8WNSDzZpQKOwAIj9C7GI1RF86kAOM+AhQADTvtn/Q=="  # noqa: E501
ECDSA_384_FINGERPRINT = "SHA256:T4WiI8mKy6tTecriyoLB4/gvf4dK89gNICj8OjatGnM"
RSA_1024 = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC/F9zwCb3V8g3eSdUOT+aBmMYWa+Qu38SAnOuHW64hITVEvqJp8tdYPVKp+1ePwgj5d/aRYILucRu0EWI0yCtvKE7F7iETKFFCCPiXbpB+YmwpJjeokyS8GXLu+LlNADfNlZcxMxc0djbiFHdCrDt3dtBfJpb2gMrdwHOlkIsltQ=="  # noqa: E501
DSA = "ssh-dss AAAAB3NzaC1kc3MAAACBAJIlQ+IL3tlQOQYqY5orBoci5Ek0xOe5u7Fz5jIs97DMEAj484FWvRlRUdgk3fPk7OnHQkSj237zUKwvWCG5cqaqC3sd2uPq/j0NQtlFg76BLRBsunAve2z4wUD28S3uc6RpVvzmM2ubJdS3p7Te74kC6erRFERKbCXoHMe/DaYJAAAAFQC9C2Jpxz6GWjLvYTo0nJ7GtFHOewAAAIA4uaFbO0rB68FlpU/U4tn1Y7JQX5IPGOxlW1CHLoAGs+Xvv9dJ88xzPxRcuL9EWmGBTKoxQbmWHsF6GtzCxp+sJtj3W4M0xSf7MqBdHa7CszZwth3bG5k6maiUoS8qX8LrKidMjGg/jYv5W+6n+ja0YhHVPC+Fk9bfSe+bhfO3ygAAAIBNEyu2lEgIDWoG6JL0wFOsqOo2V5We3igkQaWHi0jsIR7beIvAKUCTuVUjOt3unbqeb8nDwWHqczmm0vebNRI4bL8c2LgAmmd/7uzfDNjIwyAZXhJrCJRHJNle5hnYckw3bpI+ZTbEhBgtESpYaGaQCKDa7Vjpz9yUEvVKSSLZ9w=="  # noqa: E501
# fmt: on


@pytest.mark.parametrize(
    ("text", "fingerprint"),
    [
        (ED25519, ED25519_FINGERPRINT),
        (RSA_2048, RSA_2048_FINGERPRINT),
        (ECDSA_384, ECDSA_384_FINGERPRINT),
    ],
)
def test_a_good_key_is_taken_with_ssh_keygens_fingerprint(text, fingerprint):
    key = parse_public_key(f"  {text} ann@laptop of mine\n")

    assert (key.text, key.fingerprint) == (text, fingerprint)
    assert key.comment == "ann@laptop of mine"


def private_text(format):
    return (
        ed25519.Ed25519PrivateKey.generate()
        .private_bytes(serialization.Encoding.PEM, format, serialization.NoEncryption())
        .decode()
    )


@pytest.mark.parametrize(
    "format", [serialization.PrivateFormat.OpenSSH, serialization.PrivateFormat.PKCS8]
)
def test_a_private_key_is_refused_and_not_repeated(format):
    text = private_text(format)

    with pytest.raises(MalformedSshKey) as refusal:
        parse_public_key(text)

    assert refusal.value.reason == "private_key"
    assert not any(line in str(refusal.value) for line in text.splitlines()[1:-1])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DSA, "algorithm"),
        (RSA_1024, "too_short"),
        (f'from="10.0.0.0/8" {ED25519}', "options"),
        (f'command="echo hi",no-pty {RSA_2048}', "options"),
        (f"{ED25519}\n{ED25519}", "lines"),
        (f"{ED25519} a\x00b", "lines"),
        ("ssh-ed25519-cert-v01@openssh.com AAAA", "algorithm"),
        ("", "malformed"),
        ("hello", "malformed"),
        ("ssh-ed25519", "malformed"),
        ("ssh-ed25519 AAAA", "malformed"),
        ("ssh-ed25519 !!!!", "malformed"),
        (ED25519[:-8], "malformed"),
        (ED25519.replace("ssh-ed25519 ", "ssh-rsa "), "malformed"),  # not what the blob says
        (f"{ED25519} {'x' * 8192}", "malformed"),
        ("-----BEGIN CERTIFICATE-----", "malformed"),
    ],
)
def test_what_is_refused_and_why(text, reason):
    with pytest.raises(MalformedSshKey) as refusal:
        parse_public_key(text)
    assert refusal.value.reason == reason


def test_what_hides_after_the_key_inside_the_base64_is_refused():
    algorithm, blob = ED25519.split()
    longer = base64.b64encode(base64.b64decode(blob) + b"\0\0\0\4evil").decode()

    with pytest.raises(MalformedSshKey):
        parse_public_key(f"{algorithm} {longer}")


@given(st.text(max_size=300))
def test_any_text_is_a_key_or_malformed(text):
    with pytest.raises(MalformedSshKey):
        parse_public_key(text)


@given(st.binary(max_size=200), st.sampled_from(["ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256"]))
def test_any_blob_is_a_key_or_malformed(blob, algorithm):
    with pytest.raises(MalformedSshKey):
        parse_public_key(f"{algorithm} {base64.b64encode(blob).decode()}")
