"""The failures that billing expects, as data. Anything else is a bug."""

import uuid


class BillingError(Exception):
    """Base of the failures that billing expects."""


class UnknownPrice(BillingError):
    """Nothing is priced under this key at this time."""

    def __init__(self, price_key: str) -> None:
        super().__init__(f"no price for {price_key!r} at this time")
        self.price_key = price_key


class PriceNotAllowed(BillingError):
    """The new price would overtake a quote, change the past, or skip an announced price."""


class InsufficientBalance(BillingError):
    """The wallet cannot carry the start. Both amounts in micro-units."""

    def __init__(self, *, needed: int, available: int) -> None:
        super().__init__(f"needs {needed}, has {available}")
        self.needed, self.available = needed, available


class TenantInArrears(BillingError):
    """The tenant owes ``amount`` micro-units; nothing new starts before it is paid."""

    def __init__(self, amount: int) -> None:
        super().__init__(f"owes {amount}")
        self.amount = amount


class TransferKeyReused(BillingError):
    """The idempotency key belongs to another transfer."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} was used for another transfer")
        self.key = key


class UnknownRun(BillingError):
    """No run has this id."""

    def __init__(self, run_id: uuid.UUID) -> None:
        super().__init__(f"no run {run_id}")
        self.run_id = run_id
