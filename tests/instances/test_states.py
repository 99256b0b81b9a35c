"""The table of states: complete, and nothing moves but by it."""

import itertools

import pytest
from django.utils import translation

from rental.instances import states
from rental.instances.models import Instance
from rental.instances.states import (
    ALLOWANCE,
    COMING_UP,
    FINAL,
    RESTING,
    TRANSITIONS,
    WORDS,
    IllegalTransition,
    InstanceState,
    StateWord,
    check_transition,
    state_word,
)
from tests.factories.rental import NOON, fresh, order

S = InstanceState


def reachable(start):
    seen, todo = set(), [start]
    while todo:
        state = todo.pop()
        if state not in seen:
            seen.add(state)
            todo += TRANSITIONS[state]
    return seen


def test_every_state_has_a_row_and_deleted_alone_is_final():
    assert set(TRANSITIONS) == set(S)
    assert {S.DELETED} == FINAL


@pytest.mark.parametrize("state", S)
def test_every_state_can_be_reached_and_can_end(state):
    assert state in reachable(S.QUEUED)
    assert S.DELETED in reachable(state)


@pytest.mark.parametrize("state", sorted(set(S) - RESTING - {S.RELEASING}))
def test_every_live_state_can_fail_and_be_released(state):
    assert {S.FAILED, S.RELEASING} <= TRANSITIONS[state]


@pytest.mark.parametrize("state", sorted(set(S) - RESTING - {S.RUNNING}))
def test_every_passing_state_has_a_deadline(state):
    assert ALLOWANCE[state].total_seconds() > 0


def test_the_picture_names_every_state():
    for state in S:
        assert state.value in states.__doc__


@pytest.mark.parametrize(("current", "target"), list(itertools.product(S, S)))
def test_the_door_opens_by_the_table_alone(current, target):
    if target in TRANSITIONS[current]:
        check_transition(current, target)
    else:
        with pytest.raises(IllegalTransition):
            check_transition(current, target)


@pytest.mark.django_db
def test_a_move_sets_time_reason_and_deadline_and_a_refused_one_nothing(market, tenant):
    (instance,) = order(tenant)

    with pytest.raises(IllegalTransition):
        instance.move_to(S.RUNNING, at=NOON)
    assert fresh(instance).state == S.QUEUED

    for state in (*COMING_UP, S.RUNNING):
        instance.move_to(state, at=NOON, reason={"code": "x"})
        row = fresh(instance)
        assert (row.state, row.state_at, row.state_reason) == (state, NOON, {"code": "x"})
        expected = NOON + ALLOWANCE[state] if state in ALLOWANCE else None
        assert row.deadline_at == expected


def test_seven_words_stand_for_twelve_states():
    assert set(WORDS) == set(S)
    assert set(WORDS.values()) == set(StateWord)
    assert len(StateWord) == 7
    assert state_word("pulling") is StateWord.STARTING


def test_words_and_reasons_are_marked_for_translation():
    with translation.override("zh-hans"):
        for word in StateWord:
            assert str(word.label)
    assert all(str(text) for text in states.REASONS.values())


def test_the_model_knows_its_word():
    assert Instance(state="releasing").word is StateWord.DELETED
