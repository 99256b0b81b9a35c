"""A node is killed; its instances run elsewhere within 30 s, and the bill is exact."""

from tests.journeys.losses import LossRoom
from tests.journeys.stack import running_stack, state_dir


def test_the_instances_of_a_killed_node_run_elsewhere_and_cost_what_is_proven():
    # The grace of 60 s is tests/instances/test_failover.py's; here it would only be waited for.
    with running_stack(state_dir("lost"), extra_env={"SCHEDULER_DEAF_GRACE": "10"}) as stack:
        room = LossRoom(stack, instances=8)
        room.prove()

        loss = room.lose()

        assert loss.seconds <= 30
        assert room.copies() == 0
        room.bring_back(loss.node)
        room.stop_all()
        charged, proven, wrong = room.bill()
        assert wrong == 0
        assert charged == proven > 0
        assert stack.manage("audit_ledger", check=False).returncode == 0
