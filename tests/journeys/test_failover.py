"""
A node is cut off; its instances run elsewhere within 30 s, the bill is exact, and when the link
heals there is one copy of each. ``benchmarks.failover`` kills the agent, again and again.
"""

from tests.journeys.losses import LossRoom
from tests.journeys.stack import running_stack, state_dir


def test_the_instances_of_a_cut_off_node_run_elsewhere_once_and_cost_what_is_proven():
    # The grace of 60 s is tests/instances/test_failover.py's; here it would only be waited for.
    with running_stack(state_dir("lost"), extra_env={"SCHEDULER_DEAF_GRACE": "10"}) as stack:
        # given 8 instances on a node, with ticks that are proven
        room = LossRoom(stack, instances=8)
        room.prove()

        # when its link is cut, and it runs on
        loss = room.lose("cut")

        # then they run elsewhere in time, and on two nodes, as nobody can know better
        assert loss.seconds <= 30
        assert room.copies() == 0
        assert (room.really_runs("node-1"), room.really_runs("node-2")) == (8, 8)

        # and once the link heals, on one; what the other metered meanwhile costs nothing
        room.bring_back(loss.node)
        assert (room.really_runs("node-1"), room.really_runs("node-2")) == (0, 8)
        room.stop_all()
        charged, proven, wrong = room.bill()
        assert wrong == 0
        assert charged == proven > 0
        assert stack.manage("audit_ledger", check=False).returncode == 0
