"""Keys: the services' rules beside the fields, one text shown once, and values never shown."""

import re
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.utils.html import escape

from rental.instances.models import Instance, Secret
from rental.instances.secrets import put_secret
from rental.records.audit import AuditEvent
from rental.records.ids import new_id, to_text
from rental.tenants.models import ApiKey, Role, SshKey
from rental.tenants.permissions import VERBS, verbs_of
from rental.tenants.services import authenticate_api_key, remove_member
from rental.web import key_words
from tests.factories.tenants import (
    ED25519,
    ED25519_FINGERPRINT,
    OPERATOR,
    make_api_key,
    make_ssh_key,
    make_tenant,
    make_user,
    owner_of,
)
from tests.web.moneyed import Moneyed
from tests.web.rented import text_of

pytestmark = pytest.mark.django_db
PAGES = ("keys", "keys/api", "keys/secrets")


@pytest.fixture
def world():
    return Moneyed()


def post(world, path, user=None, *, htmx=False, **fields):
    fields.setdefault("once", "a-key-of-this-form")
    return world.browser(user, htmx=htmx).post(f"/t/{world.tenant.slug}/{path}", fields)


def error_of(response, field):
    return " ".join(response.context["form"].errors.get(field, []))


# --- SSH keys


def test_a_pasted_key_is_named_by_its_comment(world):
    response = post(world, "keys", public_key=f"{ED25519} fang@laptop\n")
    assert response["Location"] == f"/t/{world.tenant.slug}/keys"
    key = SshKey.objects.of(world.tenant.id).get()
    assert (key.name, key.fingerprint, key.user) == (
        "fang@laptop",
        ED25519_FINGERPRINT,
        world.owner,
    )
    text = text_of(world.page("keys"))
    assert "fang@laptop" in text
    assert ED25519_FINGERPRINT in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "This is a private key."),
        (f'from="10.0.0.0/8" {ED25519}', "Options before the key are not taken."),
        ("ssh-dss AAAA", "Keys of this kind are not taken."),
        (f"{ED25519}\n{ED25519}", "A public key is one line of text."),
        ("hello", "This is no whole public key."),
        ("", "This field is required."),
    ],
)
def test_what_is_wrong_with_a_key_stands_beside_it(world, text, words):
    response = post(world, "keys", public_key=text)
    assert response.status_code == 422
    assert words in error_of(response, "public_key")
    assert words in text_of(response)
    assert not SshKey.objects.exists()


def test_the_private_half_is_not_sent_back(world):
    private = post(world, "keys", public_key="-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz")
    other = post(world, "keys", public_key="hello")

    assert "b3BlbnNz" not in private.content.decode()
    assert ">hello</textarea>" in other.content.decode()


def test_a_key_that_is_there_is_not_added_again(world):
    make_ssh_key(world.tenant)
    response = post(world, "keys", public_key=ED25519)
    assert (response.status_code, error_of(response, "public_key")) == (
        422,
        "This key is in the list already.",
    )


def test_a_second_click_adds_nothing_and_says_the_same(world):
    first = post(world, "keys", public_key=ED25519, name="laptop")
    again = post(world, "keys", public_key=ED25519, name="laptop")
    assert (first.status_code, again.status_code) == (302, 302)
    assert SshKey.objects.count() == 1


def test_the_dialog_names_who_lets_the_key_in(world):
    key = make_ssh_key(world.tenant)
    world.queued(name="trainer", ssh_key_ids=[key.id])
    world.queued(name="other")
    url = f"keys/ssh/{to_text('ssh', key.id)}/remove"

    text = text_of(world.page(url, htmx=True))

    assert "1 instance lets it in" in text
    assert "trainer" in text
    assert "other" not in text
    assert world.page("keys").context["keys"][0].uses == 1
    response = post(world, url, htmx=True)
    assert response["HX-Redirect"] == f"/t/{world.tenant.slug}/keys"
    assert not SshKey.objects.of(world.tenant.id).live().exists()


def test_a_developer_ends_his_own_keys_and_those_of_nobody_else(world):
    developer = world.member(Role.DEVELOPER)
    theirs, _ = make_api_key(world.tenant)
    keys = {"ssh": make_ssh_key(world.tenant), "api": theirs}
    urls = {
        f"keys/ssh/{to_text('ssh', keys['ssh'].id)}/remove": {},
        f"keys/api/{to_text('key', theirs.id)}/revoke": {"name": theirs.name},
    }
    before = AuditEvent.objects.count()
    for url, fields in urls.items():
        assert post(world, url, developer, **fields).status_code == 403
        # and the page does not offer it
        page = world.page(url.rpartition("/")[0].rpartition("/")[0].replace("/ssh", ""),
                          user=developer)  # fmt: skip
        assert url not in page.content.decode()
    assert AuditEvent.objects.count() == before
    assert SshKey.objects.of(world.tenant.id).live().count() == 1
    assert ApiKey.objects.get(pk=theirs.pk).revoked_at is None


# --- API keys


def make(world, user=None, **fields):
    chosen = {"name": "ci", "kind": "person", "access": "instances", "expires": "90"}
    return post(world, "keys/api", user, **(chosen | fields))


def texts_in(response):
    return re.findall(r"tsr_[a-z0-9]{8}_[A-Za-z0-9]{43}", response.content.decode())


def test_a_key_is_shown_once_and_never_again(world, caplog):
    with caplog.at_level("DEBUG"):
        response = make(world)
        (secret,) = set(texts_in(response))
        key = ApiKey.objects.of(world.tenant.id).get()
        assert authenticate_api_key(secret, world.now) == key
        call = f"curl -H 'Authorization: Bearer {secret}' http://testserver/v1/instances"
        assert f'data-copy="{escape(call)}"' in response.content.decode()
        assert response["Cache-Control"] == "no-store"

        replayed = make(world)
        pages = [world.page(path) for path in (*PAGES, "audit", "")]

    assert ApiKey.objects.count() == 1
    assert "was made already" in text_of(replayed)
    for page in (replayed, *pages):
        assert secret not in page.content.decode()
        assert secret.rpartition("_")[2] not in page.content.decode()
    assert secret not in caplog.text
    events = AuditEvent.objects.of(world.tenant.id)
    assert secret not in repr([(e.before, e.after) for e in events])
    assert f"tsr_{key.prefix}_…" in text_of(world.page("keys/api"))


@pytest.mark.parametrize(
    ("access", "scopes"),
    [
        ("instances", sorted(key_words.FOR_INSTANCES)),
        ("read", sorted(verb for verb in VERBS if verb.endswith(":read"))),
        ("all", ["*"]),
        ("custom", ["billing:read", "instances:write"]),
    ],
)
def test_what_an_owner_chooses_is_what_the_key_may(world, access, scopes):
    make(world, access=access, scope_instances="write", scope_billing="read", scope_keys="x")
    assert ApiKey.objects.get().scopes == scopes


def test_everything_of_a_developer_is_what_his_role_allows(world):
    developer = world.member(Role.DEVELOPER)
    assert make(world, developer, access="all").status_code == 200
    key = ApiKey.objects.get()
    assert verbs_of(key.scopes) == verbs_of(Role.DEVELOPER)
    assert "instances:read" not in key.scopes


def test_more_than_the_role_allows_is_refused_beside_the_field(world):
    developer = world.member(Role.DEVELOPER)
    response = make(world, developer, access="custom", scope_members="write")
    assert response.status_code == 422
    assert error_of(response, "access") == "A key cannot do more than your role allows."
    assert not ApiKey.objects.exists()
    offered = {noun.name: noun.may_write for noun in response.context["nouns"]}
    assert "audit" not in offered
    assert (offered["members"], offered["instances"]) == (False, True)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"name": ""}, "name", "This field is required."),
        ({"access": "custom"}, "access", "Choose at least one thing"),
        ({"kind": "agent", "expires": "never"}, "expires", "must have an end"),
        ({"expires": "date"}, "expires_on", "Choose the day"),
        ({"expires": "date", "expires_on": "2020-01-01"}, "expires_on", "lies in the past"),
    ],
)
def test_what_is_missing_stands_beside_its_field(world, fields, field, words):
    response = make(world, **fields)
    assert response.status_code == 422
    assert words in error_of(response, field)
    assert not ApiKey.objects.exists()


def test_a_key_ends_with_the_chosen_day_on_the_tenants_clock(world):
    day = (world.now + timedelta(days=5)).date()
    make(world, expires="date", expires_on=day.isoformat())
    end = datetime.combine(day + timedelta(days=1), time(), tzinfo=ZoneInfo("Asia/Shanghai"))
    assert ApiKey.objects.get().expires_at == end


def test_a_key_without_an_end_and_one_for_thirty_days(world):
    make(world, expires="never")
    assert ApiKey.objects.get().expires_at is None
    make(world, expires="30", once="another-form-key")
    key = ApiKey.objects.order_by("-created_at").first()
    assert key.expires_at - key.created_at == timedelta(days=30)


def test_a_key_is_revoked_by_typing_its_name(world):
    key, text = make_api_key(world.tenant)
    url = f"keys/api/{to_text('key', key.id)}/revoke"
    assert "Type the name of the key: test key" in text_of(world.page(url, htmx=True))

    refused = post(world, url, htmx=True, name="test")
    assert refused.status_code == 422
    assert "This is not the name of the key." in text_of(refused)
    assert authenticate_api_key(text, world.now) is not None

    assert post(world, url, htmx=True, name=" test key ").status_code == 204
    assert authenticate_api_key(text, world.now) is None
    assert post(world, url, name="test key").status_code == 404
    page = world.page("keys/api")
    assert [shown.key for shown in page.context["ended"]] == [key]
    assert page.context["live"] == []


# --- secrets


def keep(world, user=None, **fields):
    return post(world, "keys/secrets", user, **fields)


def test_a_secret_is_kept_replaced_and_never_shown(world, caplog):
    value = "hf_ThisIsNotForYou"
    assert keep(world, name="HF_TOKEN", value=value).status_code == 302
    with caplog.at_level("DEBUG"):
        again = keep(world, name="HF_TOKEN", value=value + "2")
    assert again.status_code == 302
    assert Secret.objects.of(world.tenant.id).count() == 1
    for path in (*PAGES, "keys/secrets?name=HF_TOKEN", "audit"):
        assert value not in world.page(path).content.decode()
    assert value not in caplog.text
    verbs = AuditEvent.objects.of(world.tenant.id).values_list("verb", flat=True)
    assert {"secret.put", "secret.replaced"} <= set(verbs)


def test_a_value_keeps_its_lines_as_programs_write_them(world):
    from rental.instances.secrets import _open

    keep(world, name="KEY", value="a\r\nb\n  c ")
    assert _open(Secret.objects.get(), "KEY") == "a\nb\n  c "


@pytest.mark.parametrize("name", ["LD_PRELOAD", "1X", "A-B", "TESSERA_X", ""])
def test_a_name_that_is_none_is_refused_and_the_value_not_sent_back(world, name):
    response = keep(world, name=name, value="hf_ThisIsNotForYou")
    assert response.status_code == 422
    assert error_of(response, "name")
    assert "hf_ThisIsNotForYou" not in response.content.decode()
    assert not Secret.objects.exists()


def test_a_secret_in_use_stays_and_the_dialog_names_the_user(world):
    secret = put_secret(
        tenant_id=world.tenant.id, name="TOKEN", value="x", actor=OPERATOR, now=world.now
    )
    instance = world.queued(name="trainer", secrets=["TOKEN"])
    url = f"keys/secrets/{to_text('sec', secret.id)}/remove"
    text = text_of(world.page(url, htmx=True))
    assert "Stop them first" in text
    assert "trainer" in text

    response = post(world, url, htmx=True)
    assert (response.status_code, response["HX-Reswap"]) == (409, "none")
    assert Secret.objects.count() == 1

    Instance.objects.filter(pk=instance.pk).update(state="stopped")
    assert "will not start until it is kept again" in text_of(world.page(url, htmx=True))
    assert post(world, url, htmx=True).status_code == 204
    assert not Secret.objects.exists()


def test_without_a_key_of_the_site_nothing_can_be_kept_and_it_says_so(world, monkeypatch):
    monkeypatch.setattr(settings, "SECRETS_KEY", None)
    assert "has set no SECRETS_KEY" in text_of(world.page("keys/secrets"))
    assert keep(world, name="A", value="b").status_code == 503
    assert not Secret.objects.exists()


# --- who


@pytest.mark.parametrize(
    ("role", "answers"),
    [
        (Role.OWNER, (200, 200, 200)),
        (Role.ADMIN, (200, 200, 200)),
        (Role.DEVELOPER, (200, 200, 200)),
        (Role.BILLING, (403, 403, 403)),
        (Role.VIEWER, (200, 403, 403)),
    ],
)
def test_a_role_sees_the_tabs_that_it_may(world, role, answers):
    user = world.member(role)
    assert tuple(world.page(path, user=user).status_code for path in PAGES) == answers
    if answers[0] == 200:
        tabs = world.page("keys", user=user).context["tabs"]
        assert len(tabs) == answers.count(200)


def test_a_viewer_changes_nothing(world):
    viewer = world.member(Role.VIEWER)
    key = make_ssh_key(world.tenant)
    assert post(world, "keys", viewer, public_key=ED25519).status_code == 403
    assert make(world, viewer).status_code == 403
    assert keep(world, viewer, name="A", value="b").status_code == 403
    url = f"keys/ssh/{to_text('ssh', key.id)}/remove"
    assert post(world, url, viewer).status_code == 403
    assert world.page(url, user=viewer).status_code == 403
    page = world.page("keys", user=viewer).content.decode()
    assert f'action="/t/{world.tenant.slug}/keys"' not in page
    assert "/remove" not in page
    assert (SshKey.objects.count(), ApiKey.objects.count(), Secret.objects.count()) == (1, 0, 0)


def test_strangers_and_who_has_left_find_nothing(world):
    key = make_ssh_key(world.tenant)
    gone = world.member(Role.ADMIN)
    remove_member(tenant=world.tenant, user=gone, actor=OPERATOR, now=world.now)
    url = f"keys/ssh/{to_text('ssh', key.id)}/remove"
    for user in (gone, make_user(), owner_of(make_tenant())):
        for path in (*PAGES, url):
            assert world.page(path, user=user).status_code == 404
        assert post(world, url, user).status_code == 404
    assert SshKey.objects.of(world.tenant.id).live().count() == 1


def test_the_key_of_another_tenant_is_not_there(world):
    other = make_ssh_key(make_tenant())
    for key in (other.id, new_id()):
        url = f"keys/ssh/{to_text('ssh', key)}/remove"
        assert world.page(url).status_code == 404
        assert post(world, url).status_code == 404
    assert SshKey.objects.live().count() == 1


def test_every_noun_of_a_scope_has_words():
    from rental.tenants.permissions import NOUNS

    assert set(key_words.NOUNS) == set(NOUNS)
    assert key_words.scope_words("instances:write") == "Instances: change"
    assert key_words.scope_words("*:read") == "Everything: look"


def test_the_page_after_it_says_what_was_removed(world):
    key = make_ssh_key(world.tenant)
    url = f"/t/{world.tenant.slug}/keys/ssh/{to_text('ssh', key.id)}/remove"
    response = world.browser().post(url, follow=True)
    assert "“laptop” is removed." in response.content.decode()
