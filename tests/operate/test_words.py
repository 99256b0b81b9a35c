"""What an operator who reads Chinese finds in the admin's own lists and forms."""

import pytest
from django.urls import reverse

from rental.operate.forms import CreditForm, PriceForm
from rental.tenants.models import User
from tests.factories.tenants import make_user
from tests.operate.conftest import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def root():
    return signed_in(make_user(is_staff=True, is_superuser=True, language="zh-hans"))


def test_columns_and_borrowed_words_are_chinese(root):
    page = root.get(reverse("admin:tenants_auditevent_changelist"), {"q": "nothing"})
    text = page.content.decode()
    assert "操作者类型" in text
    assert "没有结果" in text
    assert "Actor kind" not in text
    assert "No results found" not in text


def test_a_person_may_have_chosen_no_language(root):
    person = make_user(language="")
    address = reverse("admin:tenants_user_change", args=[person.pk])
    kept = {"email": person.email, "phone": "", "name": "Wang", "is_active": "on"}

    answer = root.post(address, {**kept, "language": ""})

    assert answer.status_code == 302
    assert User.objects.get(pk=person.pk).language == ""
    assert root.post(address, {**kept, "language": "xx"}).status_code == 200


def test_a_wrong_amount_says_what_an_amount_is():
    assert CreditForm({"amount": "abc"}).errors["amount"] == [
        "A number with at most six decimal places, such as 88.50."
    ]
    assert CreditForm({"amount": "0"}).errors["amount"] == ["More than 0, and 1,000,000 at most."]
    assert PriceForm({"price": "-1"}).errors["price"] == ["From 0 to 1,000,000."]
