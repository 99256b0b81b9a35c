"""
The life of an instance: twelve states, one table of moves, seven words for people. Pure.

    queued --> provisioning --> pulling --> starting --> running --> stopping --> stopped
      ^  |                                     ^            |                       |
      |  +-------> stopped (cancelled)         +- restart --+--> migrating --> running
      |                                                                             |
      +--------------------------------- start -------------------------------------+

    queued, provisioning, pulling, starting, running, migrating, stopping
        --> failed --(retry)--> queued
        --> releasing --> recycled (72 h) --> deleted;  recycled --(restore)--> stopped

    stopped, failed --> releasing.   releasing --> deleted where nothing is kept.

Each transient state has a deadline and an exit. Source: DESIGN §5.
"""

from datetime import timedelta

from django.db import models
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


class InstanceState(models.TextChoices):
    QUEUED = "queued", _("queued")
    PROVISIONING = "provisioning", _("provisioning")
    PULLING = "pulling", _("pulling")
    STARTING = "starting", _("starting")
    RUNNING = "running", _("running")
    STOPPING = "stopping", _("stopping")
    STOPPED = "stopped", _("stopped")
    MIGRATING = "migrating", _("migrating")
    FAILED = "failed", _("failed")
    RELEASING = "releasing", _("releasing")
    RECYCLED = "recycled", _("recycled")
    DELETED = "deleted", _("deleted")


S = InstanceState

TRANSITIONS: dict[InstanceState, frozenset[InstanceState]] = {
    S.QUEUED: frozenset({S.PROVISIONING, S.STOPPED, S.FAILED, S.RELEASING}),
    S.PROVISIONING: frozenset({S.PULLING, S.STOPPING, S.FAILED, S.RELEASING}),
    S.PULLING: frozenset({S.STARTING, S.STOPPING, S.FAILED, S.RELEASING}),
    S.STARTING: frozenset({S.RUNNING, S.STOPPING, S.FAILED, S.RELEASING}),
    S.RUNNING: frozenset({S.STARTING, S.STOPPING, S.MIGRATING, S.FAILED, S.RELEASING}),
    S.MIGRATING: frozenset({S.RUNNING, S.FAILED, S.RELEASING}),
    S.STOPPING: frozenset({S.STOPPED, S.FAILED, S.RELEASING}),
    S.STOPPED: frozenset({S.QUEUED, S.RELEASING}),
    S.FAILED: frozenset({S.QUEUED, S.RELEASING}),
    S.RELEASING: frozenset({S.RECYCLED, S.DELETED}),
    S.RECYCLED: frozenset({S.STOPPED, S.DELETED}),
    S.DELETED: frozenset(),
}
FINAL = frozenset(state for state, targets in TRANSITIONS.items() if not targets)
# An allocation is being started; a run may be open, it has no proven ticks yet.
COMING_UP = (S.PROVISIONING, S.PULLING, S.STARTING)
# Nothing of the instance computes or waits to compute; a start or a release is the way on.
RESTING = frozenset({S.STOPPED, S.FAILED, S.RECYCLED, S.DELETED})
# Where a timer of the customer's may still have something to end.
MAY_HAVE_TIMERS = (S.QUEUED, *COMING_UP, S.RUNNING, S.STOPPED, S.FAILED)
# States that must be left by themselves; the pass of deadlines watches them.
ALLOWANCE: dict[InstanceState, timedelta] = {
    S.QUEUED: timedelta(hours=24),
    S.PROVISIONING: timedelta(seconds=120),
    S.PULLING: timedelta(minutes=30),
    S.STARTING: timedelta(seconds=300),
    S.STOPPING: timedelta(seconds=120),
    S.RELEASING: timedelta(minutes=10),
    S.RECYCLED: timedelta(hours=72),
    S.MIGRATING: timedelta(hours=6),
}


class IllegalTransition(Exception):
    """The table of states has no such move."""

    def __init__(self, current: InstanceState, target: InstanceState) -> None:
        super().__init__(f"an instance cannot go from {current} to {target}")
        self.current, self.target = current, target


def check_transition(current: InstanceState, target: InstanceState) -> None:
    """:raises IllegalTransition: if the table has no such move"""
    if target not in TRANSITIONS[current]:
        raise IllegalTransition(current, target)


class StateWord(models.TextChoices):
    """What the console says. Seven words stand for the twelve states."""

    WAITING = "waiting", _("Waiting")
    STARTING = "starting", _("Starting")
    RUNNING = "running", _("Running")
    STOPPING = "stopping", _("Stopping")
    STOPPED = "stopped", _("Stopped")
    FAILED = "failed", _("Failed")
    DELETED = "deleted", _("Deleted")


WORDS: dict[InstanceState, StateWord] = {
    S.QUEUED: StateWord.WAITING,
    S.PROVISIONING: StateWord.STARTING,
    S.PULLING: StateWord.STARTING,
    S.STARTING: StateWord.STARTING,
    S.RUNNING: StateWord.RUNNING,
    S.MIGRATING: StateWord.STARTING,  # nothing runs while it is between two nodes
    S.STOPPING: StateWord.STOPPING,
    S.STOPPED: StateWord.STOPPED,
    S.FAILED: StateWord.FAILED,
    S.RELEASING: StateWord.DELETED,
    S.RECYCLED: StateWord.DELETED,
    S.DELETED: StateWord.DELETED,
}


def state_word(state: InstanceState | str) -> StateWord:
    """Return the word that people read; its ``label`` is translated."""
    return WORDS[InstanceState(state)]


# What people read about ``state_reason["code"]``; a code without a line is shown as it is.
REASONS: dict[str, str | Promise] = {
    "user": _("stopped by a person"),
    "cancelled": _("cancelled while it waited"),
    "balance": _("the balance is used up"),
    "guest_exit": _("the program in the instance ended"),
    "auto_stop": _("the stop time that was set has come"),
    "max_duration": _("the longest duration that was set is reached"),
    "operator": _("stopped by the operator"),
    "queue_expired": _("no capacity was found in time"),
    "node_silent": _("the node is silent; it ends the instance when it is back"),
    "provisioning_late": _("the node did not take the order in time"),
    "pulling_late": _("the image did not arrive in time"),
    "starting_late": _("the instance was not ready in time"),
    "start_failed": _("the instance could not be started"),
    "node_failed": _("the node reported a failure"),
    "allocation_lost": _("the node no longer has the instance"),
    "node_lost": _("its node is lost: it starts again elsewhere"),
    "maintenance": _("its node is worked on"),
    "reclaimed": _("its spot place was needed; the disk is kept"),
    "node_dead": _("the node is lost, and with it the instance's disk"),
    "migration_late": _("the move to another node did not end in time"),
}
