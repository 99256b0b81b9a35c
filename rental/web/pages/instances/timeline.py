"""An operation's steps as a line of time: reserved, node accepted, image, started, SSH ready."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.utils.translation import gettext

from rental.web.pages.instances.words import STEPS

StepState = Literal["done", "now", "failed", "wait"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """
    ``at``: when it was reached, or began if it is on its way; ``seconds``: how long it took, so
    far where it is on its way; ``raw``: the error in the node's own words. ``wait``: not reached.
    """

    name: str
    label: str
    state: StepState
    at: datetime | None
    seconds: float | None
    percent: int | None = None
    note: str = ""
    raw: str = ""


def steps_of(operation: Mapping[str, Any], *, now: datetime) -> list[Step]:
    """
    Return the steps of an operation (kind, state, steps, percent, finished_at) in their order.

    The first step that is not finished is where it is, or where it ended.
    """
    entries: Sequence[Mapping[str, Any]] = operation["steps"]
    here = next((i for i, e in enumerate(entries) if e["finished_at"] is None), len(entries))
    return [
        _step(entry, _state(index, here, operation["state"]), operation, now=now)
        for index, entry in enumerate(entries)
    ]


def _state(index: int, here: int, operation_state: str) -> StepState:
    if index < here:
        return "done"
    if index > here:
        return "wait"
    if operation_state == "running":
        return "now"
    return "failed" if operation_state == "failed" else "wait"


def _step(
    entry: Mapping[str, Any], state: StepState, operation: Mapping[str, Any], *, now: datetime
) -> Step:
    began, finished = _moment(entry["started_at"]), _moment(entry["finished_at"])
    ended = finished
    if state == "now":
        ended = now
    elif state == "failed":
        ended = operation["finished_at"]
    seconds = None
    if began is not None and ended is not None:
        seconds = max(0.0, (ended - began).total_seconds())
    percent = operation["percent"] if state == "now" else None
    return Step(
        name=entry["name"],
        label=str(STEPS.get(entry["name"], entry["name"])),
        state=state,
        at=finished or (began if state in ("now", "failed") else None),
        seconds=seconds,
        percent=percent,
        note="" if percent is None else f"{percent} %",
        raw=str((operation["error"] or {}).get("detail") or "") if state == "failed" else "",
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def progress_words(steps: Sequence[Step]) -> str:
    """Return where an operation is, in few words: "Image, 43 %"."""
    here = next((step for step in steps if step.state == "now"), None)
    if here is None:
        return ""
    if here.percent is None:
        return here.label
    return gettext("%(step)s, %(percent)d %%") % {"step": here.label, "percent": here.percent}
