"""What people read: amounts, spans and moments on their boundaries, in both languages."""

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template
from django.utils import timezone, translation

from rental.web.icons import UnknownIcon, icons
from rental.web.templatetags import tessera


@pytest.fixture(autouse=True)
def english():
    with translation.override("en"):
        yield


NOON = datetime(2026, 3, 2, 4, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("micro", "short", "exact"),
    [
        (0, "¥0.00", "¥0.00"),
        (1, "¥0.000001", "¥0.000001"),
        (4_999, "¥0.004999", "¥0.004999"),
        (5_000, "¥0.01", "¥0.005"),
        (9_990_000, "¥9.99", "¥9.99"),
        (9_995_000, "¥10.00", "¥9.995"),
        (12_345_678, "¥12.35", "¥12.345678"),
        (-1, "−¥0.000001", "−¥0.000001"),
        (-2_500_000, "−¥2.50", "−¥2.50"),
        (999_999_990_000, "¥999,999.99", "¥999,999.99"),
        (1_000_000_000_000, "¥1,000,000.00", "¥1,000,000.00"),
        (2**63 - 1, "¥9,223,372,036,854.78", "¥9,223,372,036,854.775807"),
    ],
)
def test_an_amount_never_reads_as_nothing_unless_it_is_nothing(micro, short, exact):
    assert tessera.money(micro) == short
    assert tessera.money_exact(micro) == exact


def test_what_is_unknown_is_a_dash_and_no_zero():
    assert [f(None) for f in (tessera.money, tessera.money_exact, tessera.rate, tessera.gib)] == [
        "–"
    ] * 4
    assert tessera.duration(None) == tessera.moment(None) == tessera.ago(None) == "–"


def test_the_currency_is_the_deployments(settings):
    settings.BILLING_CURRENCY = "USD"
    assert tessera.money(1_500_000) == "$1.50"

    settings.BILLING_CURRENCY = "XAF"
    assert tessera.money(-1_500_000) == "−XAF 1.50"


@pytest.mark.parametrize(
    ("micro", "text"),
    [(5_000_000, "¥5.00/h"), (0, "¥0.00/h"), (123_456, "¥0.123456/h"), (1_250_000, "¥1.25/h")],
)
def test_a_rate_is_exact(micro, text):
    assert tessera.rate(micro) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h"),
        (3_900, "1 h 5 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (-5, "0 s"),
        (timedelta(minutes=90), "1 h 30 min"),
    ],
)
def test_a_span_has_its_two_largest_units(seconds, text):
    assert tessera.duration(seconds) == text


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (0, "0 GiB"),
        (512, "512 MiB"),
        (1_024, "1 GiB"),
        (1_536, "1.5 GiB"),
        (24_564, "24 GiB"),
        (2_097_152, "2,048 GiB"),
    ],
)
def test_memory_is_read_in_gib(mib, text):
    assert tessera.gib(mib) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (-1, "1 second ago"),
        (-59, "59 seconds ago"),
        (-60, "1 minute ago"),
        (-3_599, "59 minutes ago"),
        (-7_200, "2 hours ago"),
        (-86_400, "1 day ago"),
        (-2_592_000, "1 month ago"),
        (-31_536_000, "1 year ago"),
        (90, "in 1 minute"),
        (172_800, "in 2 days"),
    ],
)
def test_a_moment_is_so_far_away(seconds, text):
    html = tessera.ago(NOON + timedelta(seconds=seconds), NOON)

    assert html.endswith(f" data-ago>{text}</time>")


def test_a_moment_stands_in_the_zone_in_force():
    with timezone.override("Asia/Shanghai"):
        html = tessera.moment(NOON)
        short = tessera.moment(NOON, "short")

    assert html == (
        '<time datetime="2026-03-02T12:00:05+08:00" title="2026-03-02 12:00:05 +0800">'
        "2 Mar 2026, 12:00</time>"
    )
    assert short.endswith(">2 Mar, 12:00</time>")


def test_a_weekday_names_a_day_of_this_week_and_a_date_any_other():
    now = timezone.now()
    with timezone.override("Asia/Shanghai"):
        near = tessera.moment(now + timedelta(days=5), "weekday")
        far = tessera.moment(now + timedelta(days=8), "weekday")
        past = tessera.moment(NOON, "weekday")

    assert re.search(r">[A-Z][a-z]{2} \d\d:\d\d</time>$", near)
    assert re.search(r">\d{1,2} [A-Z][a-z]{2} 20\d\d</time>$", far)
    assert past.endswith(">2 Mar 2026</time>")


def test_chinese_has_short_weekdays_and_no_gap_between_sentences():
    tag = Template("{% load tessera %}{% gap %}")
    with translation.override("zh-hans"), timezone.override("Asia/Shanghai"):
        assert re.search(r">周. \d\d:\d\d</time>$", tessera.moment(timezone.now(), "weekday"))
        assert tag.render(Context()) == ""
    assert tag.render(Context()) == " "


def test_money_and_signs_are_the_same_in_chinese():
    with translation.override("zh-hans"):
        assert tessera.money(-12_345_678) == "−¥12.35"
        assert tessera.money(1) == "¥0.000001"


def test_ids_are_written_as_the_api_writes_them():
    value = uuid.UUID(int=1)
    context = Context({"id": value, "none": None})

    tag = Template("{% load tessera %}{% tid id 'ins' %}|{% tid none 'ins' %}").render(context)

    assert tag == "ins_00000000000000000000000001|"
    assert tessera.text_id(value, "ins") == "ins_00000000000000000000000001"


def test_the_words_of_states_have_their_labels():
    assert tessera.state_label("running") == "Running"


def test_an_unknown_icon_is_an_error_and_a_known_one_is_silent():
    with pytest.raises(UnknownIcon, match="no-such-icon"):
        tessera.icon("no-such-icon")

    svg = tessera.icon("server", 'size-4" onload="x')

    assert 'class="shrink-0 size-4&quot; onload=&quot;x"' in svg
    assert 'aria-hidden="true"' in svg
    assert len(icons()) > 100
