"""Places, secrets and states of the embedded servers; the logs' redaction; env readers."""

import base64
import json
import logging
import os
import stat
import sys

import pytest
import structlog

from config import asgi
from config.embedded.places import LONGEST_SOCKET_DIR, choose, forget, reachable
from config.env import BadSetting, env_bool, env_choice, env_int, env_key, env_zone
from config.logs import clean, configure, redact
from config.supervisor.secrets_file import load_or_make
from config.supervisor.state import State, read_state, write_state


def test_sockets_of_a_deep_folder_live_in_a_short_one_of_our_own(tmp_path):
    deep = tmp_path / ("x" * 90) / "var"

    places = choose(deep)

    assert len(str(places.sockets)) <= LONGEST_SOCKET_DIR
    assert stat.S_IMODE(places.sockets.stat().st_mode) == 0o700
    forget(deep)
    assert not places.sockets.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands its servers to somebody else")
def test_root_in_a_closed_folder_keeps_the_servers_data_where_their_user_gets(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    places = choose(closed / "var")

    assert places.user is not None
    assert places.user.pw_uid != 0
    assert reachable(places.shared)
    assert not reachable(closed / "var")
    forget(closed / "var")
    assert not places.shared.exists()


def test_secrets_are_made_once_and_for_their_owner_only(tmp_path):
    path = tmp_path / "secrets.json"

    first, second = load_or_make(path), load_or_make(path)

    assert first == second
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_from_before_gets_a_key_and_keeps_its_passwords(tmp_path):
    path = tmp_path / "secrets.json"
    made = json.loads((load_or_make(path), path.read_text())[1])
    old = {name: value for name, value in made.items() if name != "secrets_key"}
    path.write_text(json.dumps(old))

    found = load_or_make(path)

    assert {name: getattr(found, name) for name in old} == old
    assert len(base64.b64decode(found.secrets_key, validate=True)) == 32
    assert load_or_make(path) == found
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_that_is_no_key_stops_the_start_and_is_not_shown(monkeypatch, tmp_path):
    monkeypatch.delenv("K", raising=False)
    assert env_key("K") is None
    monkeypatch.setenv("K", base64.b64encode(bytes(32)).decode())
    assert env_key("K") == bytes(32)
    (tmp_path / "k").write_text(base64.b64encode(bytes(range(32))).decode() + "\n")
    monkeypatch.setenv("K_FILE", str(tmp_path / "k"))
    assert env_key("K") == bytes(range(32))
    monkeypatch.delenv("K_FILE")
    for wrong in ("hunter2", base64.b64encode(bytes(16)).decode(), "é" * 44):
        monkeypatch.setenv("K", wrong)
        with pytest.raises(BadSetting, match="K is not 32 bytes in base64") as refused:
            env_key("K")
        assert wrong not in str(refused.value)


def test_the_state_file_reads_back_and_ignores_what_it_does_not_know(tmp_path):
    write_state(tmp_path / "state.json", State(web_port=8000, pids={"web": 7}))
    content = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / "state.json").write_text(json.dumps(content | {"novelty": 1}))

    state = read_state(tmp_path)

    assert (state.web_port, state.pid("web")) == (8000, 7)


@pytest.mark.parametrize(
    "text",
    [
        "Bearer tsr_abcd1234_0123456789012345678901234567890123456789012",
        "tsa_01abcdefghijklmnopqrstuvwx_secretsecretsecretsecret-_x",
        "tse_0123456789012345678901234567890123456789012",
    ],
)
def test_no_credential_of_ours_reaches_a_log(text):
    hidden = clean({"note": [text]})["note"][0]

    assert "(hidden)" in hidden
    assert text.split("_", 1)[1] not in hidden


def test_passwords_in_urls_and_secrets_by_name_are_hidden():
    event = redact(None, "info", {"url": "redis://:pass@h/0", "api_token": "x", "amount": 5})

    assert event == {"url": "redis://:(hidden)@h/0", "api_token": "(hidden)", "amount": 5}


def test_a_row_that_the_database_refused_is_hidden():
    text = (
        'new row violates check constraint "x"\n'
        'DETAIL:  Failing row contains (01a2, {"TOKEN": "abc"}, 5).\n\nThe above exception'
    )

    assert clean(text).endswith("Failing row contains (hidden).\n\nThe above exception")


@pytest.mark.parametrize("output", ["json", "console"])
def test_an_exception_is_logged_without_secrets_or_local_variables(output):
    before = structlog.get_config()
    try:
        formatter = configure(output=output, level="INFO")["formatters"]["event"]
    finally:
        structlog.configure(**before)
    make = formatter.pop("()")
    password = "in-a-local-variable"
    try:
        raise ValueError(f"cannot reach redis://:{'p' * 9}@h/0")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 1, "bug", None, sys.exc_info())

    line = make(**formatter).format(record)

    assert "ValueError: cannot reach redis://:(hidden)@h/0" in line
    assert password not in line


def test_a_setting_that_makes_no_sense_stops_the_start_in_words(monkeypatch):
    monkeypatch.setenv("A", "maybe")

    with pytest.raises(BadSetting, match="'maybe' is not a yes or no"):
        env_bool("A", True)
    with pytest.raises(BadSetting, match="not a whole number"):
        env_int("A", 1)
    with pytest.raises(BadSetting, match="not one of json, console"):
        env_choice("A", "json", choices=("json", "console"))


def test_a_secret_can_come_from_a_file(monkeypatch, tmp_path):
    (tmp_path / "number").write_text("7\n")
    monkeypatch.setenv("A_FILE", str(tmp_path / "number"))

    assert env_int("A", 1) == 7


def test_a_time_zone_that_is_none_stops_the_start(monkeypatch):
    monkeypatch.setenv("Z", "Asia/Shangai")
    with pytest.raises(BadSetting, match="'Asia/Shangai' is not a time zone"):
        env_zone("Z", "UTC")
    for nonsense in ("", "../etc/passwd"):
        monkeypatch.setenv("Z", nonsense)
        with pytest.raises(BadSetting):
            env_zone("Z", "UTC")
    monkeypatch.delenv("Z")
    assert env_zone("Z", "Asia/Shanghai") == "Asia/Shanghai"


def test_the_web_process_does_not_start_without_a_key_to_sign_with(monkeypatch):
    monkeypatch.delenv("SECRET_KEY")
    with pytest.raises(BadSetting, match="SECRET_KEY"):
        asgi.build_web()
    monkeypatch.setenv("SECRET_KEY", "tests-only")
    assert asgi.build_web() is not None
