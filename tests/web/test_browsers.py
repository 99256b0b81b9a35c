"""Browsers by the names that their owners know."""

import pytest

from rental.web.browsers import name_browser

CHROME = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/142.0 Safari/537.36"
)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (CHROME, "Chrome, Linux"),
        (f"{CHROME} Edg/142.0", "Edge, Linux"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Safari/604.1", "Safari, iOS"),
        (
            "Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Firefox, Windows",
        ),
        ("curl/8.5", "curl/8.5"),
        ("", "?"),
    ],
)
def test_a_browser_is_named(agent, name):
    assert name_browser(agent) == name
