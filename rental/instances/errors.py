"""The failures that instances expect. Data for the edge to word."""

import uuid

from rental.instances.states import IllegalTransition

__all__ = [
    "BadOrder",
    "BadSecret",
    "GenerationMismatch",
    "IllegalTransition",
    "InstanceError",
    "InstanceLocked",
    "InstanceProtected",
    "NotPossibleNow",
    "PasswordLoginOff",
    "ReplaceNotOffered",
    "SecretInUse",
    "SecretNotFound",
    "SecretUnreadable",
    "SecretsNotSetUp",
    "TenantNotActive",
    "UnknownInstance",
    "UnknownProject",
    "UnknownSecret",
    "UnknownSshKey",
]


class InstanceError(Exception):
    """Base of the failures that instances expect. Anything else is a bug."""


class UnknownInstance(InstanceError):
    """The tenant has no such instance."""

    def __init__(self, instance_id: uuid.UUID) -> None:
        super().__init__("there is no such instance")
        self.instance_id = instance_id


class UnknownProject(InstanceError):
    """The tenant has no such project."""

    def __init__(self, project_id: uuid.UUID | None) -> None:
        super().__init__("there is no such project")
        self.project_id = project_id


class UnknownSshKey(InstanceError):
    """The tenant has no such SSH key."""

    def __init__(self, key_id: uuid.UUID) -> None:
        super().__init__("there is no such SSH key")
        self.key_id = key_id


class BadOrder(InstanceError):
    """A field of the order cannot be used."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field, self.detail = field, detail


class ReplaceNotOffered(BadOrder):
    """
    An instance cannot be started elsewhere when its node is lost: nothing there would end the old
    copy while the node is cut off. The guard that does comes with the agent.
    """

    def __init__(self) -> None:
        super().__init__("on_node_loss", "its nodes have no guard that ends the old copy")


class BadSecret(BadOrder):
    """A secret's name or value cannot be a variable of an instance. Tells no value."""


class UnknownSecret(InstanceError):
    """An order names what the tenant does not keep."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no secret {name[:128]!r}")
        self.name = name


class SecretNotFound(InstanceError):
    """The tenant has no secret of this id."""

    def __init__(self, secret_id: uuid.UUID) -> None:
        super().__init__("there is no such secret")
        self.secret_id = secret_id


class SecretInUse(InstanceError):
    """Instances that run, or are about to, name the secret."""

    def __init__(self, name: str, instances: list[str]) -> None:
        super().__init__(f"{name!r} is used by {', '.join(instances)}")
        self.name, self.instances = name, instances


class SecretsNotSetUp(InstanceError):
    """The deployment has no SECRETS_KEY: it can keep no secrets, and read none."""

    def __init__(self) -> None:
        super().__init__("this deployment keeps no secrets: SECRETS_KEY is not set")


class SecretUnreadable(InstanceError):
    """A stored secret does not open; an operator's matter."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the secret {name!r} does not open: {why}")
        self.name, self.why = name, why


class GenerationMismatch(InstanceError):
    """Somebody else changed the instance meanwhile (If-Match)."""

    def __init__(self, *, expected: int, actual: int) -> None:
        super().__init__(f"the instance is at generation {actual}, not {expected}")
        self.expected, self.actual = expected, actual


class NotPossibleNow(InstanceError):
    """The verb has no meaning in this state."""

    def __init__(self, *, verb: str, state: str) -> None:
        super().__init__(f"{verb} is not possible while the instance is {state}")
        self.verb, self.state = verb, state


class InstanceProtected(InstanceError):
    """Release was asked for an instance that is protected from it."""

    def __init__(self, instance_id: uuid.UUID) -> None:
        super().__init__("the instance is protected from release")
        self.instance_id = instance_id


class InstanceLocked(InstanceError):
    """A lock (money, security, operator) forbids the verb."""

    def __init__(self, *, verb: str, locks: list[str]) -> None:
        super().__init__(f"{verb} is not possible under the locks {', '.join(locks)}")
        self.verb, self.locks = verb, locks


class PasswordLoginOff(InstanceError):
    """There is no password to show or change."""

    def __init__(self) -> None:
        super().__init__("password log-in is off for this instance")


class TenantNotActive(InstanceError):
    """The tenant is suspended: it may stop, read and release, and start nothing."""

    def __init__(self, tenant_id: uuid.UUID) -> None:
        super().__init__("the tenant is suspended")
        self.tenant_id = tenant_id
