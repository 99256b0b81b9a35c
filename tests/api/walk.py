"""What the tenant matrices share: a walk over a URL conf, and a digest of everything kept."""

from django.apps import apps
from django.db import connection
from django.urls import URLPattern, URLResolver


def routes(patterns, prefix=""):
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, prefix + str(pattern.pattern))
        elif isinstance(pattern, URLPattern):
            yield prefix + str(pattern.pattern), pattern.callback


def snapshot() -> dict[str, str]:
    """A digest of every table of ours, read in one statement."""
    tables = sorted(
        {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
        - {"django_session", "django_content_type"}
    )
    parts = [
        f"SELECT '{table}', md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), ''))"
        f' FROM "{table}" t'
        for table in tables
    ]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts))
        return dict(cursor.fetchall())
