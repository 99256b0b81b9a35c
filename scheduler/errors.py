"""Failures that the scheduler expects. Anything else is a bug."""

import uuid


class SchedulerError(Exception):
    """Base of them."""


class ImpossibleShape(SchedulerError):
    """No node can ever give this shape."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class ImpossibleGang(SchedulerError):
    """These members cannot be placed together, whatever is free."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class UnknownAllocation(SchedulerError):
    """There is no such allocation."""

    def __init__(self, allocation_id: uuid.UUID) -> None:
        super().__init__(str(allocation_id))
        self.allocation_id = allocation_id


class AllocationIsGoing(SchedulerError):
    """The allocation is ordered gone or released; it cannot be changed or started again."""

    def __init__(self, allocation_id: uuid.UUID) -> None:
        super().__init__(str(allocation_id))
        self.allocation_id = allocation_id


class UnknownNode(SchedulerError):
    """There is no such node."""

    def __init__(self, node_id: uuid.UUID) -> None:
        super().__init__(str(node_id))
        self.node_id = node_id


class NodeIsAlive(SchedulerError):
    """The node was heard too lately, or was never declared lost: it cannot be declared dead."""

    def __init__(self, node_id: uuid.UUID) -> None:
        super().__init__(f"{node_id} is not lost")
        self.node_id = node_id


class NodeIsChanging(SchedulerError):
    """Something was placed on the node at this moment; ask again."""

    def __init__(self, node_id: uuid.UUID) -> None:
        super().__init__(f"{node_id} is being placed on")
        self.node_id = node_id


class EnrolmentRefused(SchedulerError):
    """
    The agent may not enrol. ``code``: bad_token, expired, used_up, name (not usable),
    node_taken (another agent's), zone (the node stands elsewhere), no_nodes.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


class FrameRefused(SchedulerError):
    """A frame says something that cannot be true; it changes nothing."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NetworksExhausted(SchedulerError):
    """Every private network is given; nobody new can be placed until the space is widened."""

    def __init__(self, space: str) -> None:
        super().__init__(f"all private networks of {space} are given")
        self.space = space


class UnknownWindow(SchedulerError):
    """There is no such maintenance window."""

    def __init__(self, window_id: uuid.UUID) -> None:
        super().__init__(str(window_id))
        self.window_id = window_id


class BadWindow(SchedulerError):
    """
    The window cannot be announced or cancelled. ``code``: too_soon, no_time (ends before it
    begins), no_reason, announced (another one of the node is to come), begun.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
