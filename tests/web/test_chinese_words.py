"""Words that a reader of Chinese met in English, or with another sense; each by its case."""

import re
from pathlib import Path

import pytest
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import override, pgettext

from rental.records.audit import AuditEvent
from rental.web.audit_words import changes_of
from rental.web.pages.instances.words import command_words, waits_for


def test_a_short_password_is_told_in_chinese():
    # Given a password that common lists do not have, When it is judged in Chinese
    with override("zh-hans"), pytest.raises(ValidationError) as refused:
        validate_password("qzv7k")
    # Then no English is left over
    with override("zh-hans"):
        assert refused.value.messages == ["太短：至少需要 10 个字符。"]


def test_states_and_markets_of_the_audit_log_are_words():
    event = AuditEvent(
        before={"state": "stopped", "market": "on_demand"},
        after={"state": "queued", "market": "spot"},
    )
    with override("zh-hans"):
        said = {(change.before, change.after) for change in changes_of(event, {})}
    assert said == {("已停止", "排队中"), ("按量计费", "竞价")}


@pytest.mark.parametrize(
    ("context", "text", "chinese"),
    [
        ("by a command", "Lost", "失去"),  # not a lost node
        ("API key", "For", "由谁使用"),  # not who is invited
        ("last used", "never", "从未使用"),  # not an instance without auto-stop
        ("expiry", "never", "永不过期"),
        ("auto-stop", "After", "运行"),  # not an amount after a change
    ],
)
def test_one_english_word_has_the_chinese_of_its_place(context, text, chinese):
    with override("zh-hans"):
        assert pgettext(context, text) == chinese


def test_a_command_and_how_it_stands_have_a_wide_colon():
    with override("zh-hans"):
        assert command_words("start", "running") == "启动：进行中"


def test_why_an_instance_waits_is_told_in_chinese():
    with override("zh-hans"):
        assert waits_for({"gpu": 2, "cpu": 1}) == "2 个节点没有空闲的 GPU，1 个节点 CPU 不足"


def test_texts_are_marked_by_a_name_that_is_collected():
    # Given that xgettext knows functions by the names at their calls: an alias hides its texts
    alias = re.compile(r"import (?:n?p?gettext(?:_lazy|_noop)?) as (?!_$)\w+", re.MULTILINE)
    root = Path(__file__).resolve().parents[2]
    found = [
        str(file.relative_to(root))
        for room in ("rental", "billing", "scheduler", "config")
        for file in (root / room).rglob("*.py")
        if alias.search(file.read_text())
    ]
    assert found == []
