"""How long a frame was held up on its way: a link that was cut and healed delivers late."""

from collections import deque
from datetime import datetime

import msgspec

from agents.protocol import Usage

# Frames looked back on: two minutes of pulses. Long enough to remember the link before it was
# cut, short enough that a clock 200 ppm off makes no more than 24 ms of it.
WINDOW = 40


class Transit:
    """
    The transit times of one link, up to a constant that nobody needs to know.

    The sender's clock (BOOTTIME) and ours differ by an offset; a frame that shows a larger offset
    than the quickest of those before it was held up by the difference.
    """

    def __init__(self) -> None:
        self._offsets: deque[int] = deque(maxlen=WINDOW)

    def held_up_ms(self, *, sent_ms: int, received_at: datetime) -> int:
        """Return by how much the frame is late, in milliseconds; 0 if the sender did not say."""
        if sent_ms <= 0:
            return 0
        offset = round(received_at.timestamp() * 1000) - sent_ms
        held_up = offset - min(self._offsets, default=offset)
        self._offsets.append(offset)
        return max(0, held_up)


def add_age(usage: Usage, held_up_ms: int) -> Usage:
    """Make the frame say how long ago readiness was when it arrived, not when it was sent."""
    if held_up_ms == 0:
        return usage
    runs = [
        run
        if run.ready_age_ms is None
        else msgspec.structs.replace(run, ready_age_ms=run.ready_age_ms + held_up_ms)
        for run in usage.runs
    ]
    return msgspec.structs.replace(usage, runs=runs)
