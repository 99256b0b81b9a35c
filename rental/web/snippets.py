"""
An order as text: the call of the API, the command and the Terraform block that do the same. Pure.

What is written here is tested by being executed; ``COMING`` names what does not exist yet.
"""

import json
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rental.records import ids
from rental.records.texts import instant_text, money_text
from rental.web.forms.launch import Order

# Ways that are shown before they work, so that nobody is surprised: the page says so.
COMING: Final = frozenset({"cli", "terraform"})


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """One way to write the order. ``is_coming``: it does not exist yet."""

    name: str
    label: str
    text: str
    is_coming: bool


def snippets_of(order: Order, *, root: str, limit: int | None) -> list[Snippet]:
    """
    Return the ways to write the order.

    ``root``: the address of this deployment, without a slash at the end. ``limit``: micro-units an
    hour for the whole order, the price that is shown; a program then never pays more.
    """
    body = body_of(order, limit=limit)
    texts = (
        ("curl", "curl", curl(body, root=root)),
        ("cli", "CLI", cli(body)),
        ("terraform", "Terraform", terraform(body)),
    )
    return [
        Snippet(name=name, label=label, text=text, is_coming=name in COMING)
        for name, label, text in texts
    ]


def body_of(order: Order, *, limit: int | None) -> dict[str, Any]:
    """Return the body of ``POST /v1/instances`` for the order, without what says nothing."""
    members: dict[str, Any] = {
        "offer": order.offer,
        "image": order.image,
        "count": order.count if order.count != 1 else None,
        "name": order.name,
        "project_id": order.project_id and ids.to_text("prj", order.project_id),
        "ssh_key_ids": [ids.to_text("ssh", one) for one in order.ssh_key_ids],
        "password_login": order.password_login or None,
        "auto_stop_at": order.auto_stop_at and instant_text(order.auto_stop_at),
        "max_duration_s": order.max_duration_s,
        "command": list(order.command),
        "env": dict(order.env),
        "secrets": list(order.secrets),
        "max_hourly_price": None if limit is None else money_text(limit),
    }
    return {name: value for name, value in members.items() if value not in (None, [], {})}


def curl(body: Mapping[str, Any], *, root: str) -> str:
    """Return a command for any shell; the key is taken from TESSERA_API_KEY."""
    sent = json.dumps(body, indent=2, ensure_ascii=False)
    return " \\\n  ".join(
        (
            f"curl {shlex.quote(f'{root}/v1/instances')}",
            '-H "Authorization: Bearer $TESSERA_API_KEY"',
            '-H "Idempotency-Key: launch-$(date +%s)"',
            '-H "Content-Type: application/json"',
            f"-d {shlex.quote(sent)}",
        )
    )


# What a new key is tried on: the first that it may read.
FIRST_READS: Final = {
    "instances:read": "instances",
    "catalog:read": "offers",
    "billing:read": "balance",
    "tenant:read": "tenant",
}


def first_call(secret: str, verbs: Collection[str], *, root: str) -> str:
    """Return a command that shows that a new key with ``verbs`` works; empty if nothing would."""
    for verb, path in FIRST_READS.items():
        if verb in verbs:
            header = shlex.quote(f"Authorization: Bearer {secret}")
            return f"curl -H {header} {shlex.quote(f'{root}/v1/{path}')}"
    return ""


# Members of the body that the command calls otherwise; the rest keep their names.
OPTIONS: Final = {
    "project_id": "project",
    "ssh_key_ids": "ssh-key",
    "auto_stop_at": "stop-at",
    "secrets": "secret",
    "max_hourly_price": "max-price",
}


def cli(body: Mapping[str, Any]) -> str:
    """Return the command of the customers' program, its options one a line."""
    options: list[str] = []
    for name, value in body.items():
        if name == "command":
            continue
        option = f"--{OPTIONS.get(name, name).replace('_', '-')}"
        if name == "max_duration_s":
            options.append(f"--stop-after {value}s")
        elif value is True:
            options.append(option)
        elif isinstance(value, dict):
            options += [f"{option} {shlex.quote(f'{key}={text}')}" for key, text in value.items()]
        elif isinstance(value, list):
            options += [f"{option} {shlex.quote(one)}" for one in value]
        else:
            options.append(f"{option} {shlex.quote(str(value))}")
    if body.get("command"):
        options.append(f"-- {shlex.join(body['command'])}")
    return " \\\n  ".join(["tessera instances create", *options])


def terraform(body: Mapping[str, Any]) -> str:
    """Return a resource of the provider with the members of the body as arguments."""
    width = max(len(name) for name in body)
    lines = [f"  {name:<{width}} = {_hcl(value)}" for name, value in body.items()]
    return "\n".join(['resource "tessera_instance" "this" {', *lines, "}"])


def _hcl(value: Any) -> str:
    """Return a value in HCL: JSON's texts, numbers and lists, but for ``${`` and ``%{``."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{key} = {_hcl(text)}" for key, text in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return f"[{', '.join(_hcl(one) for one in value)}]"
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("${", "$${").replace("%{", "%%{")
