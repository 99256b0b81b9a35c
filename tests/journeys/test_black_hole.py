"""Every hint of ours is dropped; beat still publishes. The first rental works all the same."""

from pathlib import Path

from billing.core.rating import price_of_ticks
from tests.journeys.stack import SshKey, micro, running_stack, state_dir, wait_for


def test_a_rental_without_any_hint(tmp_path: Path):
    # given a stack whose hints fall into a black hole
    with running_stack(state_dir("hole"), extra_env={"HINTS_ENABLED": "false"}) as stack:
        world = stack.world(tenants={"hole": 50_000_000}, tokens=1)
        gpu = {"uuid": "GPU-hole", "index": 0, "model": "A100", "memory_mib": 81920}
        stack.add_agent("node-hole", world["tokens"][0], [gpu])
        api = stack.api(world["tenants"]["hole"]["key"])
        ssh = SshKey.make(tmp_path, "hole")

        # when a share is ordered, entered and stopped
        made = api.order(
            offer="a100-80g-1t", image="ubuntu-22.04", ssh_key_ids=[api.add_ssh_key(ssh.public)]
        )
        seen = api.wait_state(made["id"], "running")
        entered = ssh.run(seen["endpoints"][0], "echo $TESSERA_INSTANCE")
        api.post(f"/v1/instances/{made['id']}/stop")
        api.wait_state(made["id"], "stopped")

        # then it was the customer's, and the sweeps settle it exactly
        assert entered.stdout.strip()
        charges = wait_for(
            "the charge", lambda: api.get("/v1/charges")["data"] or None, seconds=90, every=0.5
        )
        ticks = sum(one["until_unit"] - one["from_unit"] for one in charges)
        spent = 50_000_000 - micro(api.get("/v1/balance")["posted"])
        assert ticks >= 1
        assert spent == price_of_ticks(ticks, price=490_000, share=1)
        assert stack.manage("audit_ledger", check=False).returncode == 0
