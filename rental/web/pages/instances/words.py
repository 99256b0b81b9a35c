"""What people read of an instance: why it waits, why it failed and what to do. Words only."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext, ngettext_lazy, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from rental.instances.states import REASONS

# One line a dimension of ``Request.reasons``, in the order in which nodes are asked.
WAITS: dict[str, object] = {
    "releasing": _("its node has not yet confirmed the end of the session before"),
    "refused": _("the order could not be placed as it stands; the operator has been told"),
    "residence": ngettext_lazy(
        "%(n)d node is not the one that keeps its disk",
        "%(n)d nodes are not the one that keeps its disk",
        "n",
    ),
    "region": ngettext_lazy(
        "%(n)d node is in another region", "%(n)d nodes are in another region", "n"
    ),
    "zone": ngettext_lazy("%(n)d node is in another zone", "%(n)d nodes are in another zone", "n"),
    "cordoned": ngettext_lazy("%(n)d node takes nothing new", "%(n)d nodes take nothing new", "n"),
    "silent": ngettext_lazy("%(n)d node is silent", "%(n)d nodes are silent", "n"),
    "cleaning": ngettext_lazy("%(n)d node is being cleaned", "%(n)d nodes are being cleaned", "n"),
    "model": ngettext_lazy("%(n)d node has another GPU", "%(n)d nodes have other GPUs", "n"),
    "health": ngettext_lazy(
        "%(n)d node has unhealthy GPUs", "%(n)d nodes have unhealthy GPUs", "n"
    ),
    "mig": ngettext_lazy(
        "%(n)d node cannot be cut like this", "%(n)d nodes cannot be cut like this", "n"
    ),
    "isolation": ngettext_lazy(
        "%(n)d node allows no sharing with strangers",
        "%(n)d nodes allow no sharing with strangers",
        "n",
    ),
    "held": ngettext_lazy(
        "%(n)d node is kept for a larger request that has waited longer",
        "%(n)d nodes are kept for larger requests that have waited longer",
        "n",
    ),
    "gpu": ngettext_lazy("%(n)d node has no free GPU", "%(n)d nodes have no free GPU", "n"),
    "vram": ngettext_lazy("%(n)d node lacks GPU memory", "%(n)d nodes lack GPU memory", "n"),
    "cpu": ngettext_lazy("%(n)d node lacks CPU", "%(n)d nodes lack CPU", "n"),
    "ram": ngettext_lazy("%(n)d node lacks memory", "%(n)d nodes lack memory", "n"),
    "disk": ngettext_lazy("%(n)d node lacks disk", "%(n)d nodes lack disk", "n"),
    "apart": ngettext_lazy(
        "%(n)d node has one already from which it is kept apart",
        "%(n)d nodes have one already from which it is kept apart",
        "n",
    ),
    "gang": ngettext_lazy(
        "%(n)d member of its group would find a place",
        "%(n)d members of its group would find a place",
        "n",
    ),
    "incomplete": ngettext_lazy(
        "%(n)d member of its group is not there yet",
        "%(n)d members of its group are not there yet",
        "n",
    ),
}
# Not worth a reader's time where something else is said: these nodes could never have served.
BESIDE_THE_POINT = frozenset({"region", "zone", "model", "residence"})


def waits_for(reasons: Mapping[str, int]) -> str:
    """Return why a request waits, in words; without reasons nobody has looked yet."""
    if not reasons:
        return gettext("looking for a place")
    telling = {k: n for k, n in reasons.items() if k not in BESIDE_THE_POINT} or dict(reasons)
    order = list(WAITS)
    names = sorted(telling, key=lambda k: order.index(k) if k in order else len(order))
    return gettext(", ").join(_one_reason(name, telling[name]) for name in names)


def _one_reason(name: str, n: int) -> str:
    line = WAITS.get(name)
    if line is None:
        return ngettext("%(n)d node: %(name)s", "%(n)d nodes: %(name)s", n) % {"n": n, "name": name}
    if isinstance(line, Promise) and name not in ("releasing", "refused"):
        return str(line % {"n": n})
    return str(line)


@dataclass(frozen=True)
class Failure:
    """What happened, what was not done, what to do next; ``raw``: the node's own text."""

    happened: str
    not_done: str
    next_step: str
    raw: str = ""


_FREE = _("Nothing was charged for this start.")
_TO_HERE = _("It was charged up to this moment and not beyond.")
_KEPT = _("Its disk is kept.")
_RETRY = _("Start it again; it waits for its place where its disk is.")

FAILURES: dict[str, tuple[Promise, Promise]] = {
    "queue_expired": (_FREE, _("Start it again, or launch another offer that is in stock.")),
    "provisioning_late": (_FREE, _RETRY),
    "pulling_late": (
        _FREE,
        _("Start it again: what the node has of the image it does not fetch twice."),
    ),
    "starting_late": (
        _FREE,
        _("Check the command and the image, then start it again."),
    ),
    "start_failed": (_FREE, _("Mend what the node names, then start it again.")),
    "node_failed": (_TO_HERE, _("Mend what the node names, then start it again.")),
    "allocation_lost": (_TO_HERE, _RETRY),
    "migration_late": (_TO_HERE, _RETRY),
    "node_dead": (_TO_HERE, _("Start it again: it begins with an empty disk on another node.")),
}


# The words with which a node begins (agents.protocol.REASONS), and what to do about each.
NODE_WORDS: dict[str, tuple[Promise, Promise]] = {
    "start_failed": (
        _("The runtime of the node could not start it."),
        _("Check image and command, then start it again."),
    ),
    "start_timeout": (
        _("It ran and was not ready in time: no SSH answered."),
        _("Check that its command goes on running, then start it again."),
    ),
    "exited_before_ready": (
        _("Its program ended before it was ready."),
        _("Check the command: an instance ends with its program. Then start it again."),
    ),
    "node_restarted": (_("Its node was started anew."), _RETRY),
    "container_lost": (_("Its node does not have it any more."), _RETRY),
}


def failure_of(reason: Mapping[str, object], *, was_ready: bool) -> Failure:
    """
    Say what a failed instance met, from its ``state_reason``.

    :param was_ready: it had become ready in this session, so that something was charged
    """
    code = str(reason.get("code", ""))
    fallback = (_TO_HERE if was_ready else _FREE, _RETRY)
    charged, next_step = FAILURES.get(code, fallback)
    if was_ready and charged is _FREE:
        charged = _TO_HERE
    kept = "" if code in ("node_dead", "queue_expired") else f" {_KEPT}"
    raw = str(reason.get("detail") or "")
    happened = reason_words(code) or gettext("The instance failed.")
    if (told := NODE_WORDS.get(raw.partition(" ")[0])) is not None:
        happened, next_step = str(told[0]), told[1]
    return Failure(
        happened=happened, not_done=f"{charged}{kept}", next_step=str(next_step), raw=raw
    )


def reason_words(code: str) -> str:
    """Return what is said of a reason's code; one without a line is shown as it is."""
    words = str(REASONS.get(code, code))
    return words[:1].upper() + words[1:]


STEPS: dict[str, Promise] = {
    "reserved": _("Reserved"),
    "node_accepted": _("Node accepted"),
    "image": _("Image"),
    "started": _("Started"),
    "ssh_ready": _("SSH ready"),
    "stopping": _("Stopping"),
    "wiped": _("Disk wiped"),
}

# A verb of the audit log as people read it; one without a line is shown as it is.
EVENTS: dict[str, Promise] = {
    "instance.created": _("Ordered"),
    "instance.started": _("Start asked for"),
    "instance.stopped": _("Stop"),
    "instance.restarted": _("Restart asked for"),
    "instance.released": _("Release asked for"),
    "instance.renamed": _("Renamed"),
    "instance.changed": _("Settings changed"),
    "instance.failed": _("Failed"),
    "instance.moved": _("Moved to another node"),
    "instance.not_replaced": _("Stays on its lost node, which has no guard"),
    "instance.replaced": _("Starts again on another node"),
    "instance.password_revealed": _("Password shown"),
    "instance.password_rotated": _("Password changed"),
    "instance.stop_late": _("The node did not confirm the stop in time"),
    "instance.release_late": _("The node did not confirm the wipe in time"),
}


def event_words(verb: str) -> str:
    return str(EVENTS.get(verb, verb))


def notice_words(kind: str) -> str:
    """Return what a notice says will happen at its deadline."""
    if kind == "balance":
        return gettext("The balance runs out; the instance is stopped then.")
    if kind == "maintenance":
        return gettext("Its node is worked on; it is moved by then, or stopped with its disk.")
    if kind == "spot":
        return gettext("Its spot place is needed; it is stopped then and keeps its disk.")
    return kind


COMMANDS: dict[str, Promise] = {
    "create": _("Order"),
    "start": pgettext_lazy("command", "Start"),
    "stop": pgettext_lazy("command", "Stop"),
    "restart": pgettext_lazy("command", "Restart"),
    "release": pgettext_lazy("command", "Release"),
    "move": _("Move to another node"),
}
OUTCOMES: dict[str, Promise] = {
    "running": _("under way"),
    "succeeded": _("done"),
    "failed": pgettext_lazy("operation", "failed"),
    "cancelled": _("ended by something newer"),
}


def command_words(kind: str, state: str) -> str:
    """Return a command and how it stands: "Start: under way"."""
    what, how = COMMANDS.get(kind, kind), OUTCOMES.get(state, state)
    return gettext("%(what)s: %(name)s") % {"what": what, "name": how}
