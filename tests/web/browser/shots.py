"""
Take a picture of every page, in four looks: ``python -m tests.web.browser.shots FOLDER``.

``--only launch,landing`` and ``--kinds dark,zh`` take fewer; ``--docs`` makes those of docs/images.
Starts a database of its own, a house that is half let (house.py) and a web process.
"""

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "docs" / "images"
# What README and docs show: name of the file, page, kind.
DOCS = (
    ("landing", "landing", "light"),
    ("prices", "prices", "light"),
    ("launch", "launch", "light"),
    ("instance", "instance-running-charts", "light"),
    ("overview-zh-dark", "overview", "zh-dark"),
    ("fleet", "admin-fleet", "light"),
)
MOST = 150_000  # bytes of one of them
KINDS = ("light", "dark", "phone", "zh")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names of pages, with commas between")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--docs", action="store_true", help="six of them, made small")
    chosen = parser.parse_args()

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # see conftest.chromium
    import django

    django.setup()
    from django.test.utils import override_settings, setup_databases, teardown_databases

    made = setup_databases(verbosity=0, interactive=False, aliases=["default"])
    own = {"SIGNUP_ENABLED": True, "RATE_LIMITS_ENABLED": False, "HINTS_ENABLED": False}
    try:
        with override_settings(SIGNUP_TRIAL_CREDIT=20_000_000, **own):
            _take(chosen)
    finally:
        teardown_databases(made, verbosity=0)


def _take(chosen: argparse.Namespace) -> None:
    from tests.web.browser.pages import LOOKS
    from tests.web.browser.studio import Studio

    chosen.folder.mkdir(parents=True, exist_ok=True)
    with Studio() as studio:
        if chosen.docs:
            by_name = {look.name: look for look in LOOKS}
            for file, name, kind in DOCS:
                picture = studio.take(by_name[name], kind, whole=False)
                _keep_small(picture, chosen.folder / f"{file}.png")
            return
        only = set(filter(None, chosen.only.split(",")))
        for kind in chosen.kinds.split(","):
            for look in LOOKS:
                if not only or look.name in only:
                    path = chosen.folder / f"{look.name}.{kind}.png"
                    try:
                        path.write_bytes(studio.take(look, kind))
                    except Exception as failure:  # the others are wanted all the same
                        print(f"{path.name}: {failure}")


def _keep_small(picture: bytes, path: Path) -> None:
    """256 colours that suit the picture; text stays sharp, and no image is as large as a photo."""
    from io import BytesIO

    try:
        from PIL import Image
    except ImportError:
        path.write_bytes(picture)
        print(f"{path.name}: {len(picture)} bytes; with Pillow it would be smaller")
        return
    image = Image.open(BytesIO(picture)).convert("RGB")
    for colours in (256, 128, 64):
        image.quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
            path, optimize=True
        )
        if path.stat().st_size < MOST:
            break
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
