"""What the operator types, checked."""

from datetime import datetime
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from billing.core.money import parse_micro
from scheduler.models import Zone

# A slip of the keyboard should not become a fortune; more is credited in steps.
LARGEST_CREDIT: Final = 1_000_000_000_000  # micro-units: one million
LARGEST_PRICE: Final = 1_000_000_000_000
LOCAL: Final = "%Y-%m-%dT%H:%M"  # as a browser's datetime-local field sends it


class MoneyField(forms.CharField):
    """A decimal amount above zero, as micro-units. ``most``: the largest that is accepted."""

    widget = UnfoldAdminTextInputWidget

    def __init__(self, *, most: int, least: int = 1, **rest: Any) -> None:
        super().__init__(max_length=24, **rest)
        self.most, self.least = most, least
        self.widget.attrs |= {"inputmode": "decimal", "autocomplete": "off"}

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            amount = parse_micro(str(text).replace(",", ""))
        except ValueError:
            raise forms.ValidationError(
                _("A number with at most six decimal places, such as 88.50.")
            ) from None
        if not self.least <= amount <= self.most:
            raise forms.ValidationError(
                _("More than 0, and 1,000,000 at most.")
                if self.least
                else _("From 0 to 1,000,000.")
            )
        return amount


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=_("Reason"), max_length=500, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2})
    )


class CreditForm(ReasonForm):
    """``key`` is made with the page, so that a form sent twice credits once."""

    amount = MoneyField(label=_("Amount"), most=LARGEST_CREDIT)
    key = forms.UUIDField(widget=forms.HiddenInput)
    field_order = ("amount", "reason", "key")


class PriceForm(forms.Form):
    """A new price per hour and when it begins; "at once" when no time is given."""

    price = MoneyField(label=_("New price per hour"), most=LARGEST_PRICE, least=0)
    effective_at = forms.DateTimeField(
        label=_("Holds from"),
        required=False,
        input_formats=[LOCAL],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format=LOCAL),
    )

    def begins_at(self, *, now: datetime) -> datetime:
        """Return the instant that was asked for; only call on a valid form."""
        asked: datetime | None = self.cleaned_data["effective_at"]
        return now if asked is None else asked


class EnrolForm(forms.Form):
    zone = forms.ModelChoiceField(
        label=_("Zone"),
        queryset=Zone.objects.order_by("code"),
        empty_label=None,
        widget=UnfoldAdminSelectWidget,
    )
