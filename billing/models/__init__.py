"""Billing's tables."""

from billing.models.charges import Charge, Posting, Reversal
from billing.models.ledger import Account, Hold, Transfer, Wallet
from billing.models.prices import PriceVersion
from billing.models.runs import Run, RunDirty, Segment, Stretch, Tally, Waiver

__all__ = [
    "Account",
    "Charge",
    "Hold",
    "Posting",
    "PriceVersion",
    "Reversal",
    "Run",
    "RunDirty",
    "Segment",
    "Stretch",
    "Tally",
    "Transfer",
    "Waiver",
    "Wallet",
]
