"""What the operator types, checked."""

from datetime import datetime
from typing import Any, Final

from django import forms
from django.conf import settings
from django.utils import timezone
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

    amount = MoneyField(label=_("Amount"), help_text=settings.BILLING_CURRENCY, most=LARGEST_CREDIT)
    key = forms.UUIDField(widget=forms.HiddenInput)
    field_order = ("amount", "reason", "key")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].help_text = _("The customer reads it in the ledger.")


class MomentForm(forms.Form):
    """When something begins; "at once" when no time is given."""

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

    def fill_in(self, moment: datetime) -> None:
        """Put a moment into the field, so that the form need only be sent again."""
        text = timezone.localtime(moment).strftime(LOCAL)
        self.data = {**self.data, "effective_at": text}


class PriceForm(MomentForm):
    price = MoneyField(label=_("New price per hour"), most=LARGEST_PRICE, least=0)
    field_order = ("price", "effective_at")


class PercentForm(MomentForm):
    """A rise, or below zero a cut, of many prices. ``rounding`` is in micro-units."""

    percent = forms.DecimalField(
        label=_("Change in percent"),
        help_text=_("5 raises by five percent, -10 lowers by ten percent."),
        min_value=-99,
        max_value=1000,
        max_digits=6,
        decimal_places=2,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "text", "autocomplete": "off"}),
    )
    rounding = forms.TypedChoiceField(
        label=_("Round new prices to"),
        choices=[(10_000, "0.01"), (100_000, "0.1"), (1_000_000, "1"), (1, _("not at all"))],
        coerce=int,
        initial=10_000,
        widget=UnfoldAdminSelectWidget,
    )
    field_order = ("percent", "rounding", "effective_at")

    def clean_percent(self) -> Any:
        if self.cleaned_data["percent"] == 0:
            raise forms.ValidationError(_("Nothing changes by 0."))
        return self.cleaned_data["percent"]


class EnrolForm(forms.Form):
    zone = forms.ModelChoiceField(
        label=_("Zone"),
        queryset=Zone.objects.order_by("code"),
        empty_label=None,
        widget=UnfoldAdminSelectWidget,
    )
