"""Names for instances that got none, and slugs that no two of them share."""

import secrets

from django.utils.text import slugify

# fmt: off
ADJECTIVES = [
    "amber", "bold", "brave", "bright", "calm", "clever", "cosmic", "crisp", "eager", "fair",
    "gentle", "golden", "happy", "keen", "kind", "lively", "lucid", "lucky", "mellow", "merry",
    "mighty", "nimble", "noble", "proud", "quick", "quiet", "rapid", "silver", "smart", "solar",
    "steady", "sunny", "swift", "vivid", "warm", "wise", "witty", "young",
]
# fmt: on
# fmt: off
ANIMALS = [
    "badger", "bear", "beaver", "bison", "crane", "deer", "dolphin", "eagle", "falcon", "finch",
    "fox", "gecko", "heron", "ibex", "jaguar", "koala", "lark", "lemur", "lynx", "magpie",
    "marten", "moose", "newt", "otter", "owl", "panda", "pika", "puma", "raven", "robin", "seal",
    "sparrow", "stork", "swan", "tapir", "tiger", "toad", "walrus", "whale", "wolf", "wren",
    "yak", "zebra",
]
# fmt: on
# No vowels and nothing that looks alike: no words, no reading mistakes.
LETTERS = "23456789bcdfghjkmnpqrstvwxz"
TAIL = 6  # 27^6 = 387 million; a slug cannot be guessed from the name


def make_name() -> str:
    """Return two words that people can say, for example ``brave-otter``."""
    return f"{secrets.choice(ADJECTIVES)}-{secrets.choice(ANIMALS)}"


def make_slug(name: str) -> str:
    """
    Return a slug for an instance called ``name``: at most 40 characters, fit for a host name.

    The random tail makes it unique; the constraint is the proof, and a collision fails the order.
    """
    tail = "".join(secrets.choice(LETTERS) for _ in range(TAIL))
    head = slugify(name)[:32].strip("-_").replace("_", "-") or make_name()
    return f"{head}-{tail}"
