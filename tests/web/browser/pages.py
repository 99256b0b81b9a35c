"""
Every page that a person can see, once in each shape that matters. ``test_every_page`` opens each
and compares the list with the URL conf; ``shots`` takes pictures of them. A new page: a line here.
"""

from dataclasses import dataclass

from rental.records.ids import to_text
from scheduler.models import Node
from tests.factories.tenants import owner_of
from tests.web.browser.house import PASSWORD


@dataclass(frozen=True)
class Look:
    """
    :param route: as the URL conf has it
    :param path: with the words of ``words_of``
    :param who: an attribute of House, or "nobody"
    :param opens: what is pressed to open the dialog that is to be looked at
    :param fills: fields and their values; ``presses`` sends them
    :param shows: wait for this
    """

    name: str
    route: str
    path: str
    who: str = "owner"
    opens: str = ""
    fills: tuple[tuple[str, str], ...] = ()
    presses: str = ""
    shows: str = ""
    status: int = 200
    says: int = 200  # the status that the browser notes on its console

    @property
    def is_admins(self):
        return self.route.startswith("admin/")

    @property
    def is_unfolds(self):
        """A list of the admin's toolkit, with nothing of ours but the columns."""
        return self.route.startswith("admin/tenants/")


T = "t/<slug:tenant>/"
INS = T + "instances/<ins:instance_id>"
DIALOG = "#dialog[open] h2"


def _dialog(name, route, path, opens, **rest):
    """The dialog as a page shows it, opened by its button."""
    return Look(name, route, path, opens=opens, shows=DIALOG, **rest)


def _instance(state, *tabs):
    return [
        Look(f"instance-{state}-{tab}", INS, f"{{{state}}}?tab={tab}", shows="#tab") for tab in tabs
    ]


def _command(word, state):
    """A dialog of an instance, over its page and as a page of its own (without scripts)."""
    opens = f"[hx-get$='/{word}']"
    return [
        _dialog(f"{word}-dialog", f"{INS}/{word}", f"{{{state}}}", opens),
        Look(f"{word}-page", f"{INS}/{word}", f"{{{state}}}/{word}"),
    ]


PUBLIC = [
    Look("landing", "", "/", "nobody"),
    Look("prices", "prices", "/prices", "nobody"),
    Look("sign-up", "accounts/signup/", "/accounts/signup/", "nobody"),
    Look(
        "sign-up-refused", "accounts/signup/", "/accounts/signup/", "nobody",
        presses="main form button[type=submit]", shows=".field-error", says=422,
    ),
    Look("log-in", "accounts/login/", "/accounts/login/", "nobody"),
    Look("reset", "accounts/password/reset/", "/accounts/password/reset/", "nobody"),
    Look(
        "reset-code", "accounts/password/reset/code/", "/accounts/password/reset/", "nobody",
        fills=(("[name=contact]", "lin@example.com"),), presses="main form button[type=submit]",
        shows="[name=code]",
    ),
    Look("invited", "join/<str:token>", "/join/{token}", "nobody"),
    Look("invitation-over", "join/<str:token>", "/join/nothing", "nobody", status=404),
    Look("not-found", "", "/nowhere", "nobody", status=404),
    Look("api-docs", "v1/docs", "/v1/docs", "nobody"),
]  # fmt: skip
PERSONAL = [
    Look("components", "dev/components", "/dev/components", "operator"),
    Look("me", "me", "/me"),
    Look("contact", "me/contact", "/me/contact"),
    Look(
        "contact-code", "me/contact/code", "/me/contact",
        fills=(("[name=contact]", "lin.new@example.com"), ("[name=password]", PASSWORD)),
        presses="main form button[type=submit]", shows="[name=code]",
    ),
    Look("no-tenant", "console", "/console", "homeless"),
    Look("new-tenant", "console/new", "/console/new", "homeless"),
    Look("log-out", "accounts/logout/", "/accounts/logout/"),
    Look("password", "accounts/password/change/", "/accounts/password/change/"),
    Look("factors", "accounts/2fa/", "/accounts/2fa/"),
    Look("reauthenticate", "accounts/reauthenticate/", "/accounts/2fa/totp/activate/"),
    Look(
        "second-factor", "accounts/2fa/totp/activate/", "/accounts/2fa/totp/activate/", "mate",
        fills=(("input[type=password]", PASSWORD),), presses="main form button[type=submit]",
        shows="#authenticator_secret",
    ),
    Look(
        "recovery-codes", "accounts/2fa/recovery-codes/", "/accounts/2fa/recovery-codes/", "clerk",
        fills=(("input[type=password]", PASSWORD),), presses="main form button[type=submit]",
        shows="#recovery_codes",
    ),
    Look(
        "code-asked", "accounts/2fa/authenticate/", "/accounts/login/", "nobody",
        fills=(("[name=login]", "clerk@example.com"), ("[name=password]", PASSWORD)),
        presses="main form button[type=submit]", shows="[name=code]",
    ),
]  # fmt: skip
TENANT = [
    Look("overview", T, "{t}/"),
    Look("overview-first-steps", T, "{nova}/", "newcomer"),
    Look("overview-viewer", T, "{t}/", "viewer"),
    Look("launch", f"{T}launch", "{t}/launch", shows="[data-price]"),
    Look("launch-poor", f"{T}launch", "{nova}/launch", "newcomer"),
    Look("instances", f"{T}instances", "{t}/instances", shows="tr[data-live]"),
    Look("instances-empty", f"{T}instances", "{nova}/instances", "newcomer"),
    Look("instances-none-found", f"{T}instances", "{t}/instances?q=nothing-like-it"),
    *_instance("running", "connect", "charts", "cost", "events", "settings"),
    *_instance("waiting", "connect", "cost", "events"),
    *_instance("stopped", "connect", "charts", "cost", "settings"),
    *_instance("failed", "connect", "events"),
    *_instance("starting", "connect"),
    *_instance("released", "events"),
    Look(
        "instance-password", f"{INS}/password", "{password}?tab=connect",
        presses="#password button", shows="#password [data-copy]",
    ),
    Look("instance-viewer", INS, "{running}", "viewer"),
    *_command("stop", "running"),
    *_command("restart", "running"),
    *_command("start", "stopped"),
    *_command("release", "stopped"),
    *_command("retry", "failed"),
    *_command("cancel", "waiting"),
    Look("rename", f"{INS}/rename", "{running}", opens="[hx-get*='/rename']", shows="[name=name]"),
    Look(
        "bulk-stop", f"{T}instances/bulk-stop", "{t}/instances",
        fills=(("tr[data-live] input[type=checkbox]:enabled", "on"),),
        opens="[hx-get*='bulk-stop']",
        shows=DIALOG,
    ),
    Look("billing", f"{T}billing", "{t}/billing"),
    Look("billing-empty", f"{T}billing", "{nova}/billing", "newcomer"),
    Look("transfers", f"{T}billing/transfers", "{t}/billing/transfers"),
    Look("charges", f"{T}billing/charges", "{t}/billing/charges"),
    Look("ssh-keys", f"{T}keys", "{t}/keys"),
    Look("ssh-keys-empty", f"{T}keys", "{nova}/keys", "newcomer"),
    Look("api-keys", f"{T}keys/api", "{t}/keys/api"),
    Look("secrets", f"{T}keys/secrets", "{t}/keys/secrets"),
    _dialog("remove-ssh-key", f"{T}keys/ssh/<ssh:ssh_key_id>/remove", "{t}/keys",
            "[hx-get*='/keys/ssh/'][hx-get$='/remove']"),
    _dialog("revoke-api-key", f"{T}keys/api/<key:api_key_id>/revoke", "{t}/keys/api",
            "[hx-get$='/revoke']"),
    _dialog("remove-secret", f"{T}keys/secrets/<sec:secret_id>/remove", "{t}/keys/secrets",
            "[hx-get*='/keys/secrets/'][hx-get$='/remove']"),
    Look("team", f"{T}team", "{t}/team"),
    _dialog("role", f"{T}team/<usr:user_id>/role", "{t}/team", "[hx-get$='/role']"),
    _dialog("remove-member", f"{T}team/<usr:user_id>/remove", "{t}/team",
            "[hx-get*='/team/'][hx-get$='/remove']"),
    _dialog("leave", f"{T}team/leave", "{t}/team", "[hx-get$='/team/leave']", who="viewer"),
    Look("projects", f"{T}projects", "{t}/projects"),
    _dialog("project-name", f"{T}projects/<prj:project_id>/name", "{t}/projects",
            "[hx-get$='/name']"),
    Look("audit", f"{T}audit", "{t}/audit"),
    Look("settings", f"{T}settings", "{t}/settings"),
    Look("forbidden", f"{T}launch", "{t}/launch", "viewer", status=403),
]  # fmt: skip
OPERATORS = [
    Look("admin-log-in", "admin/login/", "/admin/login/?next=/admin/", "nobody"),
    Look("admin", "admin/", "/admin/", "operator"),
    Look("admin-no-role", "admin/", "/admin/", "clerk"),
    Look("admin-refused", "admin/prices/", "/admin/prices/", "clerk", status=403),
    Look("admin-setup", "admin/setup/", "/admin/setup/", "operator"),
    Look("admin-fleet", "admin/fleet/", "/admin/fleet/", "operator"),
    Look("admin-node", "admin/fleet/<uuid:node_id>/", "/admin/fleet/{node}/", "operator"),
    Look("admin-node-dead", "admin/scheduler/node/<path:object_id>/declare-dead/",
         "/admin/scheduler/node/{node}/declare-dead/", "operator"),
    Look("admin-queue", "admin/queue/", "/admin/queue/", "operator"),
    Look("admin-cancel", "admin/queue/<uuid:request_id>/cancel/", "/admin/queue/{request}/cancel/",
         "operator"),
    Look("admin-occupancy", "admin/occupancy/", "/admin/occupancy/", "operator"),
    Look("admin-credit", "admin/credit/", "/admin/credit/", "operator"),
    Look("admin-credit-tenant", "admin/credit/<slug:tenant>/", "/admin/credit/lin-vision/",
         "operator"),
    Look("admin-prices", "admin/prices/", "/admin/prices/", "operator"),
    Look("admin-prices-change", "admin/prices/change/", "/admin/prices/change/", "operator"),
    Look("admin-prices-changed", "admin/prices/change/", "/admin/prices/change/", "operator",
         fills=(("[name=percent]", "-10"),), presses="[value=look]", shows="[value=publish]"),
    Look("admin-price", "admin/prices/<slug:offer>/<slug:market>/",
         "/admin/prices/a100-80g/on_demand/", "operator"),
    Look("admin-codes", "admin/tenants/contactcode/", "/admin/tenants/contactcode/", "operator"),
]  # fmt: skip
LOOKS = [*PUBLIC, *PERSONAL, *TENANT, *OPERATORS]

# Addresses that are no page: why.
NO_PAGES = {
    f"{T}find": "answers of the palette",
    f"{T}instances/counts": "part of the list",
    f"{INS}/row": "part of the list",
    f"{INS}/header": "part of the instance's page",
    f"{INS}/cost.csv": "a file",
    f"{INS}/samples": "JSON for charts",
    f"{T}launch/elsewhere": "part of the launch page",
    f"{T}launch/stock": "part of the launch page",
    f"{T}overview/now": "part of the overview",
    f"{T}overview/month": "part of the overview",
    f"{T}billing/transfers.csv": "a file",
    f"{T}billing/charges.csv": "a file",
    f"{T}audit.csv": "a file",
    f"{T}live/versions": "JSON for pages without a socket",
    "launch": "goes to one's own launch page",
    "language": "switches and goes back",
    "accounts/email/": "goes to /me",
    "accounts/sessions/": "goes to /me",
    "accounts/signup/code/": "the page of reset-code with other words",
    "join/code": "the page of reset-code with other words",
    "admin/setup/enrol/": "an action of setup",
    "admin/fleet/<uuid:node_id>/<slug:verb>/": "an action of the fleet",
    "admin/occupancy.csv": "a file",
}


def words_of(house):
    """What stands for the names in paths."""
    return {
        "t": f"/t/{house.tenant.slug}",
        "nova": f"/t/{house.empty.slug}",
        "running": house.of("qwen-sft"),
        "waiting": house.of("eval-h100"),
        "starting": house.of("vllm-serve"),
        "stopped": house.of("sweep-03"),
        "failed": house.of("flux-test"),
        "released": house.of("sweep-01"),
        "password": house.of("notebook-lei"),
        "token": house.token,
        "request": house.waiting_request.pk,
        "node": Node.objects.get(name="gz-a100-02").pk,
        "mate": to_text("usr", house.mate.pk),
        "owner": to_text("usr", owner_of(house.tenant).pk),
    }


def open_look(page, look, words):
    """Bring ``page`` to the look; return the status of its address."""
    answer = page.goto(look.path.format(**words))
    for field, value in look.fills:
        box = page.locator(field).first
        box.check() if value == "on" else box.fill(value)
    if look.opens:
        page.locator(look.opens).first.dispatch_event("click")
    if look.presses:
        page.locator(look.presses).first.click()
    if look.shows:
        page.locator(look.shows).first.wait_for()
    return answer.status
