"""What is kept of pages: equal contents have one key, and any change is another."""

from dataclasses import dataclass, replace

import pytest
from django.utils.translation import gettext_lazy, override

from rental.web.kept import print_of
from tests.factories.rental import make_offer
from tests.factories.tenants import NOON


@dataclass(frozen=True)
class Thing:
    name: object
    parts: tuple[object, ...] = ()


ONE = Thing("a", (Thing("b"), [1, {"c": NOON}]))


def test_equal_contents_have_one_key():
    assert print_of(ONE, 1) == print_of(Thing("a", (Thing("b"), [1, {"c": NOON}])), 1)


@pytest.mark.parametrize(
    "other",
    [
        replace(ONE, name="A"),
        replace(ONE, parts=()),
        replace(ONE, parts=(Thing("b"), [1, {"d": NOON}])),
        replace(ONE, parts=(Thing("b"), [1, {"c": NOON.replace(hour=1)}])),
        replace(ONE, parts=(Thing("b", (None,)), [1, {"c": NOON}])),
    ],
)
def test_any_change_is_another_key(other):
    assert print_of(other, 1) != print_of(ONE, 1)


def test_a_language_has_its_own():
    with override("en"):
        english = print_of(ONE)
    with override("zh-hans"):
        assert print_of(ONE) != english


def test_words_count_as_they_are_said():
    assert print_of(Thing(gettext_lazy("Prices"))) != print_of(Thing(gettext_lazy("Launch")))


@pytest.mark.django_db
def test_a_row_is_its_columns():
    offer = make_offer("a100-80g", now=NOON)
    again = type(offer).objects.get(pk=offer.pk)
    assert print_of(again) == print_of(offer)

    again.name += "!"
    assert print_of(again) != print_of(offer)
