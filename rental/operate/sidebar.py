"""The sidebar of the admin: what an operator does first, the rows of every table after it."""

from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as _

from rental.operate.page import may
from scheduler.models import Request


@dataclass(frozen=True, slots=True)
class Link:
    """``to``: a page of ours ("operate:fleet") or a model's list ("scheduler.node")."""

    title: Any
    icon: str
    to: str
    verb: str
    badge: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    title: Any
    links: tuple[Link, ...]
    collapsible: bool = False


SECTIONS: Final = (
    Section(
        _("Setup"),
        (
            Link(_("Overview"), "dashboard", "operate:overview", "rental:read"),
            Link(_("Setup"), "checklist", "operate:setup", "rental:read"),
            Link(_("Staff roles"), "badge", "tenants.staffrole", "tenants:read"),
        ),
    ),
    Section(
        _("Fleet"),
        (
            Link(_("Fleet map"), "grid_view", "operate:fleet", "scheduler:read"),
            Link(
                _("Queue"),
                "hourglass_top",
                "operate:queue",
                "scheduler:read",
                "rental.operate.sidebar.waiting",
            ),
            Link(_("Nodes"), "dns", "scheduler.node", "scheduler:read"),
            Link(_("GPUs"), "memory", "scheduler.gpu", "scheduler:read"),
            Link(_("Quarantine"), "coronavirus", "scheduler.quarantineevent", "scheduler:read"),
        ),
    ),
    Section(
        _("Sales"),
        (
            Link(_("Prices"), "sell", "operate:prices", "billing:read"),
            Link(_("Occupancy and revenue"), "monitoring", "operate:occupancy", "billing:read"),
            Link(_("Offers"), "storefront", "rental.offer", "rental:read"),
            Link(_("Images"), "deployed_code", "rental.image", "rental:read"),
        ),
    ),
    Section(
        _("Customers"),
        (
            Link(_("Tenants"), "apartment", "tenants.tenant", "tenants:read"),
            Link(_("People"), "group", "tenants.user", "tenants:read"),
            Link(_("Instances"), "terminal", "rental.instance", "rental:read"),
            Link(_("Wallet credit"), "add_card", "operate:credit", "billing:credit"),
            Link(_("Codes to pass on"), "pin", "tenants.contactcode", "tenants:read"),
            Link(_("Invitations"), "mail", "tenants.invitation", "tenants:read"),
        ),
    ),
    Section(
        _("Money, row by row"),
        (
            Link(_("Wallets"), "account_balance_wallet", "billing.wallet", "billing:read"),
            Link(_("Transfers"), "swap_horiz", "billing.transfer", "billing:read"),
            Link(_("Charges"), "receipt_long", "billing.charge", "billing:read"),
            Link(_("Postings"), "post", "billing.posting", "billing:read"),
            Link(_("Runs"), "timer", "billing.run", "billing:read"),
            Link(_("Holds"), "lock_clock", "billing.hold", "billing:read"),
            Link(_("Price versions"), "history", "billing.priceversion", "billing:read"),
            Link(_("Quotes"), "request_quote", "rental.quote", "rental:read"),
        ),
        collapsible=True,
    ),
    Section(
        _("Placement, row by row"),
        (
            Link(_("Requests"), "assignment", "scheduler.request", "scheduler:read"),
            Link(_("Allocations"), "widgets", "scheduler.allocation", "scheduler:read"),
            Link(_("Slices"), "splitscreen", "scheduler.slice", "scheduler:read"),
            Link(_("Disks on nodes"), "hard_drive", "scheduler.residence", "scheduler:read"),
            Link(_("Maintenance"), "build", "scheduler.maintenancewindow", "scheduler:read"),
            Link(_("Private networks"), "lan", "scheduler.privatenetwork", "scheduler:read"),
            Link(_("Liveness"), "ecg_heart", "scheduler.nodeliveness", "scheduler:read"),
            Link(_("Gateways"), "router", "scheduler.gatewayflush", "scheduler:read"),
            Link(_("Agents"), "smart_toy", "scheduler.agent", "scheduler:read"),
            Link(_("Enrolment tokens"), "token", "scheduler.enrolmenttoken", "scheduler:read"),
            Link(_("GPU models"), "developer_board", "scheduler.gpumodel", "scheduler:read"),
            Link(_("Zones"), "location_on", "scheduler.zone", "scheduler:read"),
            Link(_("Regions"), "public", "scheduler.region", "scheduler:read"),
        ),
        collapsible=True,
    ),
    Section(
        _("Records"),
        (
            Link(_("Audit log"), "policy", "tenants.auditevent", "tenants:read"),
            Link(_("Operations"), "rule", "rental.operation", "rental:read"),
            Link(_("Notices"), "notifications", "rental.notice", "rental:read"),
            Link(_("API keys"), "key", "tenants.apikey", "tenants:read"),
            Link(_("SSH keys"), "vpn_key", "tenants.sshkey", "tenants:read"),
            Link(_("Secrets"), "password", "rental.secret", "rental:read"),
            Link(_("Consents"), "task", "tenants.consent", "tenants:read"),
            Link(_("Outbox"), "outbox", "tenants.outboxmessage", "tenants:read"),
        ),
        collapsible=True,
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the sections as unfold reads them, with what this member of staff may open."""
    return [
        {
            "title": section.title,
            "separator": True,
            "collapsible": section.collapsible,
            "items": [item for link in section.links if (item := _item(link, request)) is not None],
        }
        for section in SECTIONS
    ]


def _item(link: Link, request: HttpRequest) -> dict[str, Any] | None:
    address = address_of(link)
    if address is None or not may(request, link.verb):
        return None
    item: dict[str, Any] = {"title": link.title, "icon": link.icon, "link": address}
    if link.badge and waiting(request):
        item |= {"badge": link.badge, "badge_variant": "warning"}
    if link.to == "operate:overview":
        item["active"] = lambda asked: asked.path == address  # every page lies below it
    return item


def address_of(link: Link) -> str | None:
    """Return where the link leads; None where the room that has the page is not there."""
    name = link.to
    if ":" not in name:
        name = f"admin:{name.replace('.', '_')}_changelist"
    try:
        return reverse(name)
    except NoReverseMatch:
        return None


def waiting(request: HttpRequest) -> str:
    """Return how many requests wait, "" for none: the badge beside the queue."""
    if not hasattr(request, "_waiting"):
        request._waiting = str(Request.objects.waiting().count() or "")  # type: ignore[attr-defined]
    return str(request._waiting)  # type: ignore[attr-defined]


def stylesheet(_request: HttpRequest) -> str:
    return static("operate/operate.css")


def script(_request: HttpRequest) -> str:
    return static("operate/operate.js")


def favicon(_request: HttpRequest) -> str:
    return static("img/mark.svg")
