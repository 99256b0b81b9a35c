"""Icons are drawn when a template is compiled, and look as the component would draw them."""

import pytest
from django.template import Context, engines

from rental.web.icons import UnknownIcon, draw
from rental.web.loader import Loader, draw_icons


def written(source, tmp_path, **context):
    """Render a template of this source as a page's is rendered."""
    (tmp_path / "page.html").write_text(source, encoding="utf-8")
    engine = engines["django"].engine
    template = Loader(engine, [str(tmp_path)]).get_template("page.html")
    return template.render(Context(context))


def test_a_known_name_is_the_drawing_itself():
    assert draw_icons('<b><c-icon name="server" class="size-5" /></b>') == (
        f"<b>{draw('server', 'size-5')}\n</b>"
    )
    assert draw_icons('<c-icon name="server" />') == draw("server", "size-4") + "\n"


def test_a_name_that_the_page_decides_is_looked_up_in_it(tmp_path):
    source = '{% for one in all %}<c-icon :name="one.icon" class="size-5" />{% endfor %}'
    several = [{"icon": "server"}, {"icon": "wallet"}]
    assert written(source, tmp_path, all=several) == (
        draw("server", "size-5") + "\n" + draw("wallet", "size-5") + "\n"
    )


def test_what_says_more_stays_a_component(tmp_path):
    for more in ('label="Server"', 'class="{{ css }}"'):
        source = f'<c-icon name="server" {more} />'
        assert draw_icons(source) == source
    spoken = written('<c-icon name="server" label="Server" />', tmp_path)
    assert str(draw("server")) in spoken
    assert '<span class="sr-only">Server</span>' in spoken


def test_an_unknown_name_is_found_when_the_template_is_compiled():
    with pytest.raises(UnknownIcon):
        draw_icons('<c-icon name="no-such-icon" />')
