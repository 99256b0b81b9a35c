"""What the checklist is made of."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from django.utils.translation import gettext_lazy as _


class State(StrEnum):
    DONE = "done"
    NEEDED = "needed"  # nothing can be sold, or something is unsafe, without it
    ADVISED = "advised"
    SOON = "soon"  # too early to tell
    CHOICE = "choice"  # the operator's to decide; both ways are right
    LATER = "later"  # Tessera cannot do it yet


STATE_WORDS: Final[dict[State, Any]] = {
    State.DONE: _("Done"),
    State.NEEDED: _("Needed"),
    State.ADVISED: _("Advised"),
    State.SOON: _("Not seen yet"),
    State.CHOICE: _("Your choice"),
    State.LATER: _("Not built yet"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One line. ``says``: what is found; ``why``: why it matters. ``url`` with ``label`` is a page
    that does it, ``command`` what to type in a shell; ``enrols``: the page offers a token.
    """

    key: str
    title: Any
    state: State
    says: Any
    why: Any
    url: str = ""
    label: Any = ""
    command: str = ""
    enrols: bool = False

    @property
    def word(self) -> Any:
        return STATE_WORDS[self.state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    title: Any
    steps: list[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    groups: list[Group]

    @property
    def steps(self) -> list[Step]:
        return [step for group in self.groups for step in group.steps]

    def count(self, state: State) -> int:
        return sum(1 for step in self.steps if step.state is state)

    @property
    def needed(self) -> int:
        return self.count(State.NEEDED)

    @property
    def advised(self) -> int:
        return self.count(State.ADVISED)

    @property
    def done(self) -> int:
        return self.count(State.DONE)


def when(condition: object, otherwise: State = State.NEEDED) -> State:
    return State.DONE if condition else otherwise
