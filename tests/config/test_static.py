"""Names of static files: plain until they are collected, hashed from then on."""

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.test import override_settings

from config.static import CollectedStatic


def test_without_collectstatic_names_are_those_of_the_sources():
    assert staticfiles_storage.url("dist/app.js") == "/static/dist/app.js"


def test_collected_files_carry_their_hash_and_are_compressed(tmp_path):
    with override_settings(STATIC_ROOT=tmp_path, INSTALLED_APPS=["django.contrib.staticfiles"]):
        call_command("collectstatic", interactive=False, verbosity=0)
        storage = CollectedStatic(location=tmp_path)
        url = storage.url("dist/app.css")

    name = url.removeprefix("/static/")
    assert name != "dist/app.css"
    assert (tmp_path / name).exists()
    assert (tmp_path / f"{name}.gz").exists()
    assert storage.url("not/there.css") == "/static/not/there.css"


def test_sources_are_not_served():
    assert finders.find("dist/app.css")
    assert finders.find("css/src/app.css") is None
    assert finders.find("build.mjs") is None
