"""Setup: the checklist, and the command with which a node enrols."""

from datetime import timedelta
from typing import Final, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from rental.operate.forms import EnrolForm
from rental.operate.page import CHANGE, may, show, staff_page
from rental.operate.setup import look_at_setup
from rental.records.clock import database_now
from rental.tenants.admin import staff_actor
from rental.tenants.models import User
from scheduler.services.enrolment import issue_token

READ, ENROL = "rental:read", "scheduler:write"
TOKEN_LASTS: Final = timedelta(hours=1)

# The token goes into a file, so that it stands in no list of processes.
COMMAND: Final = """\
umask 077
NODE=$(hostname -s | tr A-Z a-z)
printf %s '{token}' > tessera.token
tessera-agent enrol --url {url} --token-file tessera.token \\
    --name "$NODE" --node "$NODE" --credential-out credential.json
rm tessera.token
cat > agent.toml <<END
[server]
url = "{socket}/agent/v1"
credential_file = "credential.json"
state_dir = "state"

[[nodes]]
name = "$NODE"
gpu_driver = "simulated"
gpus_file = "gpus.json"
runtime = "local"
END"""


@staff_page(READ)
def setup(request: HttpRequest) -> HttpResponse:
    return _page(request)


@staff_page(ENROL, CHANGE)
def enrol(request: HttpRequest) -> HttpResponse:
    """Make a token for one agent and show it with its command, this once (no-store)."""
    form = EnrolForm(request.POST)
    if not form.is_valid():
        return _page(request, form=form, status=422)
    now = database_now()
    token = issue_token(
        zone=form.cleaned_data["zone"],
        uses=1,
        expires_at=now + TOKEN_LASTS,
        actor=staff_actor(request),
        now=now,
    )
    url = gateway_url(request).rstrip("/")
    command = COMMAND.format(token=token, url=url, socket=url.replace("http", "ws", 1))
    return _page(request, form=form, command=command)


def gateway_url(request: HttpRequest) -> str:
    """Return what nodes dial: the setting, or this host with a port to be filled in."""
    if settings.GATEWAY_URL:
        return str(settings.GATEWAY_URL)
    return f"{request.scheme}://{request.get_host().rpartition(':')[0] or request.get_host()}:8001"


def _page(
    request: HttpRequest, *, form: EnrolForm | None = None, command: str = "", status: int = 200
) -> HttpResponse:
    return show(
        request,
        "setup.html",
        title=_("Setup"),
        status=status,
        setup=look_at_setup(user=cast(User, request.user), now=database_now()),
        form=form or EnrolForm(),
        may_enrol=may(request, ENROL),
        command=command,
        has_gateway_url=bool(settings.GATEWAY_URL),
    )
