"""The order that a node gets for an instance; the scheduler forwards it unread."""

from datetime import UTC

from agents.protocol import AllocationSpec, Mount, Port
from rental.instances.models import Instance, Notice, NoticeKind
from rental.instances.passwords import digest_for_node
from rental.tenants.models import SshKey

# Residences are named by their kind: their ids are minted when the scheduler finds a node.
MOUNTS = [Mount(residence="workspace", path="/workspace")]
GRACE_S = 10
START_TIMEOUT_S = 300


def build_spec(instance: Instance) -> AllocationSpec:
    """Return how the instance is run, with the SSH keys that its tenant has now."""
    keys = SshKey.objects.of(instance.tenant_id).live().filter(pk__in=instance.ssh_key_ids)
    return AllocationSpec(
        instance=str(instance.id),
        name=instance.name,
        slug=instance.slug,
        image=instance.image.ref,
        command=list(instance.command),
        env=dict(instance.env),
        secrets=list(instance.secrets),
        ports=[
            Port(container=port["container"], name=port.get("name", "")) for port in instance.ports
        ],
        mounts=list(MOUNTS),
        ssh_keys=list(keys.order_by("pk").values_list("public_key", flat=True)),
        password_digest=digest_for_node(instance),
        reclaim_at=_reclaim_at(instance),
        cpu_milli=instance.shape["cpu_milli"],
        ram_mib=instance.shape["ram_mib"],
        disk_mib=instance.disk_mib,
        grace_s=GRACE_S,
        start_timeout_s=START_TIMEOUT_S,
    )


def _reclaim_at(instance: Instance) -> str:
    notices = Notice.objects.standing().filter(instance=instance, kind=NoticeKind.SPOT)
    deadline = notices.values_list("deadline", flat=True).first()
    return "" if deadline is None else deadline.astimezone(UTC).isoformat().replace("+00:00", "Z")
