"""What the launch page lets a person choose from, and what is chosen before he has chosen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from rental.catalog.models import Image, Isolation
from rental.catalog.queries import Card, OnSale, cards_of, list_cards, list_images
from rental.instances.models import Secret
from rental.instances.orders import MOST_SSH_KEYS
from rental.records.ids import to_text
from rental.tenants.models import Project, SshKey
from rental.web.forms.launch import NEVER, LaunchForm
from rental.web.isolation import BY_NAME, LEVELS, Level
from rental.web.kept import print_of
from rental.web.visit import Visit


@dataclass(frozen=True, kw_only=True)
class Own:
    """
    What the tenant has. ``may_add_key``: a new SSH key can be pasted. ``has_passwords``: the
    deployment can keep the password of an instance.
    """

    projects: Sequence[Project]
    ssh_keys: Sequence[SshKey]
    secrets: Sequence[str]
    may_add_key: bool
    has_passwords: bool

    def form(self, bound: Any = None, initial: Mapping[str, Any] | None = None) -> LaunchForm:
        return LaunchForm(
            bound,
            initial=dict(initial or {}),
            projects=[to_text("prj", project.id) for project in self.projects],
            ssh_keys=[to_text("ssh", key.id) for key in self.ssh_keys],
            secrets=self.secrets,
        )


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """What is on sale, as the tenant finds it."""

    cards: Sequence[Card]
    images: Sequence[Image]

    def find(self, code: object) -> OnSale | None:
        everything = (one for card in self.cards for one in card.sold)
        return next((one for one in everything if one.offer.code == code), None)

    def card_of(self, one: OnSale | None) -> Card | None:
        return next((card for card in self.cards if one in card.sold), None)


def read_own(visit: Visit) -> Own:
    """Read projects, keys and names of secrets: three queries at most."""
    secrets: list[str] = []
    if visit.may("secrets:read"):
        kept = Secret.objects.of(visit.tenant.id).order_by("name")
        secrets = list(kept.values_list("name", flat=True))
    keys = SshKey.objects.of(visit.tenant.id).live().select_related("user")
    projects = Project.objects.of(visit.tenant.id).order_by("-is_default", "name", "pk")
    return Own(
        projects=list(projects),
        ssh_keys=list(keys.order_by("name", "pk")[:MOST_SSH_KEYS]),
        secrets=secrets,
        may_add_key=visit.may("ssh_keys:write"),
        has_passwords=settings.SECRETS_KEY is not None,
    )


def read_catalog(visit: Visit) -> Catalog:
    """Read cards and images: eight queries, four while the stock is kept."""
    cards = list_cards(tenant_id=visit.tenant.id, now=visit.now)
    return Catalog(cards=cards, images=list_images())


# --- what is chosen before anybody has chosen


def initial_of(own: Own, catalog: Catalog, visit: Visit) -> dict[str, Any]:
    """Return the fields as they stand at first; the address may name offer, image and count."""
    asked = visit.request.GET
    chosen = catalog.find(asked.get("offer")) or first_choice(catalog.cards)
    card = catalog.card_of(chosen)
    keys = [to_text("ssh", key.id) for key in own.ssh_keys if key.user_id == visit.user.pk]
    count = asked.get("count", "1")
    return {
        "offer": chosen.offer.code if chosen else "",
        "image": _first_image(catalog.images, card, asked.get("image")),
        "count": count if count.isdecimal() and len(count) <= 2 else "1",
        "project": _first_project(own.projects),
        "ssh_keys": keys,
        "password_login": own.has_passwords and not keys,
        "stop": NEVER,
        "stop_after": "8",
    }


def _first_project(projects: Sequence[Project]) -> str:
    """Return the default one where there is a choice; an order without any goes there by itself."""
    first = next((to_text("prj", project.id) for project in projects if project.is_default), "")
    return first if len(projects) > 1 else ""


def first_choice(cards: Sequence[Card]) -> OnSale | None:
    """Return the cheapest that can start now beside no stranger; else of what there is."""
    everything = [one for card in cards for one in card.sold]
    tests = (
        lambda one: one.stock.available > 0 and one.offer.isolation != Isolation.SHARED,
        lambda one: one.stock.available > 0,
        lambda one: one.stock.exists,
        lambda one: True,
    )
    for test in tests:
        if found := [one for one in everything if test(one)]:
            return min(found, key=lambda one: (one.rate.price, one.offer.code))
    return None


def _first_image(images: Sequence[Image], card: Card | None, asked: str | None) -> str:
    codes = {image.code for image in images}
    if asked in codes:
        return str(asked)
    fitting = [image for image in images if card is None or cards_of(image, [card])]
    newest = [image for image in fitting if kind_of(image) == "PyTorch"]
    for several in (newest, fitting):
        if several:
            return max(several, key=_age).code
    return ""


def _age(image: Image) -> tuple[tuple[int, ...], ...]:
    """Sort by the version in the image's name, then of PyTorch, then of CUDA."""
    named = next((word for word in image.name.split() if word[0].isdecimal()), "")
    return tuple(map(_numbers, (named, image.frameworks.get("pytorch", ""), image.cuda)))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


# --- how it is shown


@dataclass(frozen=True, kw_only=True)
class CardChoice:
    """A card with its offers by level. ``chosen``: the chosen one of them, if it is here."""

    card: Card
    levels: Sequence[tuple[Level, Sequence[OnSale]]]
    chosen: OnSale | None

    @property
    def is_chosen(self) -> bool:
        return self.chosen is not None

    @cached_property
    def key(self) -> str:
        """All that it is drawn from (rental.web.kept)."""
        return print_of(self.card, self.chosen and self.chosen.offer.code)


@dataclass(frozen=True, kw_only=True)
class ImageChoice:
    """``cards``: slugs of the cards on which it runs, for launch.js. ``words``: to search in."""

    image: Image
    cards: str
    words: str
    runs: bool


@dataclass(frozen=True, kw_only=True)
class ImageGroup:
    label: str | Promise
    images: Sequence[ImageChoice]

    @property
    def runs(self) -> bool:
        return any(one.runs for one in self.images)


# What an image is for, by what stands in it; the first that is there decides.
SERVING, APPS = _("Inference servers"), _("Applications and libraries")
KINDS: Final[dict[str, str | Promise]] = {
    "deepspeed": APPS,
    "vllm": SERVING,
    "sglang": SERVING,
    "tritonserver": SERVING,
    "comfyui": APPS,
    "mindspore": "MindSpore",
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "paddlepaddle": "PaddlePaddle",
}
CUDA_ALONE, PLAIN = "CUDA", _("Without frameworks")
GROUPS: Final = (
    "PyTorch", "TensorFlow", "JAX", "PaddlePaddle", "MindSpore", SERVING, APPS, CUDA_ALONE, PLAIN,
)  # fmt: skip


def card_choices(cards: Iterable[Card], chosen: OnSale | None) -> list[CardChoice]:
    return [
        CardChoice(
            card=card, levels=levels_of(card), chosen=chosen if chosen in card.sold else None
        )
        for card in cards
    ]


def levels_of(card: Card) -> list[tuple[Level, list[OnSale]]]:
    """Return the card's offers by level, without levels that it is not sold in."""
    found: dict[str, list[OnSale]] = {level.name.value: [] for level in LEVELS}
    for one in card.sold:
        found[one.offer.isolation].append(one)
    return [(BY_NAME[name], several) for name, several in found.items() if several]


def image_groups(
    images: Iterable[Image], cards: Sequence[Card], chosen: Card | None
) -> list[ImageGroup]:
    """Return the images by what they bring: frameworks first, then CUDA alone, then the rest."""
    groups: dict[str | Promise, list[ImageChoice]] = {}
    for image in sorted(images, key=_age, reverse=True):
        slugs = cards_of(image, cards)
        text = f"{image.code} {image.name} cuda {image.cuda} "
        words = text + " ".join(f"{name} {version}" for name, version in image.frameworks.items())
        choice = ImageChoice(
            image=image,
            cards=" ".join(slugs),
            words=words.lower(),
            runs=chosen is None or chosen.slug in slugs,
        )
        groups.setdefault(kind_of(image), []).append(choice)
    return [ImageGroup(label=kind, images=groups[kind]) for kind in GROUPS if kind in groups]


def kind_of(image: Image) -> str | Promise:
    """Return the group in which the image stands."""
    first = next((KINDS[name] for name in KINDS if name in image.frameworks), None)
    return first or (CUDA_ALONE if image.cuda else PLAIN)
