"""What can go wrong with tenants, members and keys, as classes with data."""


class TenantsError(Exception):
    """Base of the failures that tenants expects. Anything else is a bug."""


class SlugTaken(TenantsError):
    """Another tenant, or another project of this tenant, has the slug."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"the slug {slug!r} is taken")
        self.slug = slug


class MalformedSlug(TenantsError):
    """A slug is a part of a host name: a-z, 0-9 and inner hyphens, at most 40."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"not a slug: {slug[:60]!r}")
        self.slug = slug


class NotAMember(TenantsError):
    """The user does not belong to the tenant."""


class UnknownMember(NotAMember):
    """Somebody was to be changed or removed who is no member."""


class AlreadyAMember(TenantsError):
    """The user belongs to the tenant; change the role instead."""


class LastOwner(TenantsError):
    """A tenant keeps an owner: the last one can neither leave nor change role."""


class EmailOrPhoneTaken(TenantsError):
    """Another user has the e-mail address or the phone number."""


class ScopeExceedsRole(TenantsError):
    """
    A key was to get more than its creator, or the key that makes it, has itself. ``excess``: the
    verbs, or the limit of the making key that was to be left (project, expires_at).
    """

    def __init__(self, excess: frozenset[str]) -> None:
        super().__init__(f"beyond what the creator may do: {', '.join(sorted(excess))}")
        self.excess = excess


class KeyNeverValid(TenantsError):
    """The key would have expired already, or is an agent's and would never expire."""


class UnknownApiKey(TenantsError):
    """The tenant has no such key, or it is revoked already."""


class NotYourKey(TenantsError):
    """The key is another person's; ending it takes the right to change members."""


class MalformedSshKey(TenantsError):
    """
    The text is no public key that we take. ``reason`` is one word for programs: private_key,
    options, lines, algorithm, too_short, malformed.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class SshKeyExists(TenantsError):
    """The tenant knows this key already, perhaps under another name."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__(f"the key {fingerprint} is there already")
        self.fingerprint = fingerprint


class UnknownSshKey(TenantsError):
    """The tenant has no such key, or it is removed already."""


class MalformedContact(TenantsError):
    """The text is neither an e-mail address nor a mobile phone number."""

    def __init__(self, text: str) -> None:
        super().__init__(f"neither an e-mail address nor a mobile number: {text[:60]!r}")
        self.text = text


class BadCode(TenantsError):
    """
    The code does not prove the contact. ``reason``: wrong, expired (or never made, or used), or
    tried_too_often; asking for a new one helps in each case.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the code is not accepted: {reason}")
        self.reason = reason


class TooManyCodes(TenantsError):
    """Codes for this contact were asked for too often; more come after an hour."""


class OnlyAnOwner(TenantsError):
    """Who is an owner, and who becomes one, only an owner decides."""

    def __init__(self) -> None:
        super().__init__("only an owner makes, changes or removes an owner")


class UnknownInvitation(TenantsError):
    """There is no such invitation, or it is revoked."""


class InvitationOver(TenantsError):
    """The invitation cannot be accepted. ``reason``: expired, used or revoked."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the invitation is {reason}")
        self.reason = reason


class InvitedSomebodyElse(TenantsError):
    """The invitation names another e-mail address or phone number than the user's own."""

    def __init__(self, masked: str) -> None:
        super().__init__(f"the invitation is for {masked}")
        self.masked = masked


class UnknownProject(TenantsError):
    """The tenant has no such project."""


class UnknownTimeZone(TenantsError):
    """The name is no time zone such as Asia/Shanghai."""

    def __init__(self, name: str) -> None:
        super().__init__(f"not a time zone: {name[:60]!r}")
        self.name = name
