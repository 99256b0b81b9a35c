"""Ids: round trip, order, and the one canonical spelling."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rental.records.ids import PREFIXES, MalformedId, first_id_at, from_text, new_id, to_text

pytestmark = pytest.mark.pure

prefixes = st.sampled_from(sorted(PREFIXES))
uuids = st.uuids()


@given(prefixes, uuids)
def test_text_and_back_is_the_same_id(prefix, id):
    text = to_text(prefix, id)

    assert from_text(prefix, text) == id
    assert len(text) == len(prefix) + 1 + 26
    assert text == text.lower()


@given(prefixes, uuids, uuids)
def test_texts_sort_as_ids_do(prefix, one, other):
    assert (to_text(prefix, one) < to_text(prefix, other)) == (one.int < other.int)


@given(prefixes, st.text(max_size=40))
def test_any_text_is_an_id_or_malformed_and_an_id_has_one_spelling(prefix, text):
    try:
        id = from_text(prefix, text)
    except MalformedId:
        return
    assert to_text(prefix, id) == text


def test_both_ends_of_the_range():
    assert to_text("ins", uuid.UUID(int=0)) == "ins_00000000000000000000000000"
    assert to_text("ins", uuid.UUID(int=2**128 - 1)) == "ins_7zzzzzzzzzzzzzzzzzzzzzzzzz"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ins",
        "ins_",
        "run_00000000000000000000000000",  # another noun
        "ins_0000000000000000000000000",  # 25 letters
        "ins_000000000000000000000000000",  # 27
        "ins_0000000000000000000000000O",  # not canonical, although Crockford reads it as 0
        "ins_0000000000000000000000000A",  # upper case
        "ins_0000000000000000000000000l",
        "ins_80000000000000000000000000",  # 2**128
        "INS_00000000000000000000000000",
        "ins_00000000000000000000000000 ",
    ],
)
def test_other_spellings_are_malformed(text):
    with pytest.raises(MalformedId) as refusal:
        from_text("ins", text)
    assert refusal.value.prefix == "ins"


def test_an_unknown_prefix_is_never_minted():
    with pytest.raises(ValueError, match="unknown id prefix 'foo'"):
        to_text("foo", new_id())


def test_fresh_ids_are_uuid7_in_order():
    made = [new_id() for _ in range(1000)]

    assert {id.version for id in made} == {7}
    assert made == sorted(made)
    assert len(set(made)) == 1000


def test_an_index_is_entered_at_a_moment():
    before = datetime.now(UTC)
    made = new_id()
    after = datetime.now(UTC) + timedelta(milliseconds=1)
    assert first_id_at(before) <= made < first_id_at(after)
    assert first_id_at(datetime(1960, 1, 1, tzinfo=UTC)) < made
