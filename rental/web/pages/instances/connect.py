"""The connect tab: every line that somebody pastes to get in, and the keys that open it."""

import shlex
from dataclasses import dataclass
from urllib.parse import quote

from rental.instances.queries import InstanceSheet
from rental.tenants.models import SshKey
from rental.web.pages.instances.shown import ssh_command
from rental.web.visit import Visit

# Where the node does not say it: the mount of every order (rental.instances.specs).
WORKSPACE = "/workspace"


@dataclass(frozen=True, kw_only=True)
class Ways:
    """How to reach it now. ``editor``: opens VS Code there; it needs its Remote-SSH extension."""

    command: str
    config: str
    upload: str
    download: str
    editor: str
    host: str
    port: int
    user: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Connect:
    """
    ``ways``: None while nothing listens. ``keys``: those that were given to it and still exist;
    ``gone``: how many were removed since. ``may_reveal``: the password can be shown now.
    """

    ways: Ways | None
    keys: list[SshKey]
    gone: int
    has_password: bool
    may_reveal: bool


def connect_of(visit: Visit, sheet: InstanceSheet) -> Connect:
    instance = sheet.instance
    keys: list[SshKey] = []
    if visit.may("ssh_keys:read"):
        known = SshKey.objects.of(visit.tenant.id).live().filter(pk__in=instance.ssh_key_ids)
        keys = list(known.order_by("name", "pk"))
    return Connect(
        ways=ways_of(sheet),
        keys=keys,
        gone=len(instance.ssh_key_ids) - len(keys) if visit.may("ssh_keys:read") else 0,
        has_password=instance.password_login,
        may_reveal=sheet.actions["reveal_password"].legal,
    )


def ways_of(sheet: InstanceSheet) -> Ways | None:
    ssh = sheet.ssh
    if ssh is None:
        return None
    host, port, user = ssh["host"], ssh["port"], ssh["user"] or "root"
    alias = sheet.instance.slug
    shown_host = f"[{host}]" if ":" in host else host
    workspace = ssh["workspace"] or WORKSPACE
    there = f"{user}@{shown_host}:{workspace}"
    config = "\n".join([f"Host {alias}", f"  HostName {host}", f"  Port {port}", f"  User {user}"])
    return Ways(
        command=ssh_command(ssh),
        config=config,
        upload=f"scp -P {port} -r ./data {shlex.quote(f'{there}/')}",
        download=f"scp -P {port} -r {shlex.quote(f'{there}/results')} .",
        editor=f"vscode://vscode-remote/ssh-remote+{quote(user)}@{shown_host}:{port}{quote(workspace)}",
        host=host,
        port=port,
        user=user,
        fingerprint=ssh["host_key_fingerprint"],
    )
