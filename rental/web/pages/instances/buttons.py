"""The commands of an instance as buttons: what is legal now, and why the rest is not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from rental.instances.actions import Action, Verb
from rental.instances.effects import CommandVerb
from rental.instances.models import Instance
from rental.instances.states import InstanceState

S = InstanceState


@dataclass(frozen=True, kw_only=True)
class Button:
    """
    ``word``: the last part of its address. ``why_not``: why it cannot be pressed, or empty.
    ``is_small``: an icon is enough of it in a row.
    """

    word: str
    label: Promise
    icon: str
    kind: str = "plain"
    why_not: Promise | str = ""
    is_small: bool = False


@dataclass(frozen=True)
class Look:
    """``verb``: the command behind the word; cancel and retry are stop and start, aptly named."""

    verb: CommandVerb
    label: Promise
    icon: str
    kind: str = "plain"
    is_small: bool = False


LOOKS: Final = {
    "cancel": Look("stop", _("Cancel the wait"), "x"),
    "start": Look("start", pgettext_lazy("command", "Start"), "play", "primary"),
    "retry": Look("start", _("Try again"), "rotate-cw", "primary"),
    "stop": Look("stop", pgettext_lazy("command", "Stop"), "square"),
    "restart": Look("restart", pgettext_lazy("command", "Restart"), "rotate-cw", is_small=True),
    "release": Look("release", pgettext_lazy("command", "Release"), "trash-2", is_small=True),
}
STOPPING: Final = Button(
    word="stopping",
    label=_("Stopping…"),
    icon="square",
    why_not=_("The node has been told; billing has ended."),
)


def buttons_of(instance: Instance, actions: Mapping[Verb, Action]) -> list[Button]:
    """
    Return the buttons of an instance, in the order in which they stand: those that its state
    allows. One that something else forbids is there and says why; who may only look sees none.
    """
    buttons = [STOPPING] if instance.state == S.STOPPING else []
    for word in _words(instance):
        look, action = LOOKS[word], actions[LOOKS[word].verb]
        if action.code in ("state", "role"):
            continue
        buttons.append(
            Button(
                word=word,
                label=look.label,
                icon=look.icon,
                kind=look.kind,
                why_not=str(action.why),
                is_small=look.is_small,
            )
        )
    return buttons


def _words(instance: Instance) -> tuple[str, ...]:
    stop = "cancel" if instance.state == S.QUEUED else "stop"
    start = "retry" if instance.state == S.FAILED else "start"
    return (start, stop, "restart", "release")
