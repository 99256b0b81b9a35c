"""Typed readers of the environment. A value that makes no sense stops the start, in words."""

import base64
import binascii
import os
import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


class BadSetting(SystemExit):
    """The environment holds a value that cannot be used; starting would only hide it."""


def _raw(name: str) -> str | None:
    """Return NAME, or the content of the file that NAME_FILE points to (for secrets)."""
    if (path := os.environ.get(f"{name}_FILE")) is not None:
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise BadSetting(f"{name}_FILE={path!r} cannot be read: {error.strerror}") from error
    return os.environ.get(name)


def env_text(name: str, default: str) -> str:
    value = _raw(name)
    return default if value is None else value


def env_choice(name: str, default: str, *, choices: tuple[str, ...]) -> str:
    value = env_text(name, default)
    if value not in choices:
        raise BadSetting(f"{name}={value!r} is not one of {', '.join(choices)}")
    return value


def env_bool(name: str, default: bool) -> bool:
    value = _raw(name)
    if value is None:
        return default
    lowered = value.strip().lower()
    if lowered in {"1", "true", "yes", "on"}:
        return True
    if lowered in {"0", "false", "no", "off", ""}:
        return False
    raise BadSetting(f"{name}={value!r} is not a yes or no; use true or false")


def env_int(name: str, default: int, *, minimum: int = 0) -> int:
    value = _raw(name)
    if value is None:
        return default
    try:
        number = int(value)
    except ValueError:
        raise BadSetting(f"{name}={value!r} is not a whole number") from None
    if number < minimum:
        raise BadSetting(f"{name}={number} is below {minimum}")
    return number


def env_seconds(name: str, default: int, *, minimum: int = 0) -> timedelta:
    """Read a whole number of seconds as a timedelta."""
    return timedelta(seconds=env_int(name, default, minimum=minimum))


def env_money(name: str, default: str) -> int:
    """Read an amount of money such as 20.00, not negative, as micro-units."""
    value = env_text(name, default).strip()
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", value):
        raise BadSetting(f"{name}={value!r} is not an amount such as 20.00")
    return int(Decimal(value).scaleb(6))


def env_key(name: str) -> bytes | None:
    """Read 32 bytes in base64; None if it is not set. A wrong one is not shown: it is a secret."""
    value = _raw(name)
    if not value:
        return None
    try:
        key = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise BadSetting(f"{name} is not 32 bytes in base64; make one by: openssl rand -base64 32")
    return key


def env_zone(name: str, default: str) -> str:
    """Read the name of a time zone."""
    value = env_text(name, default)
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadSetting(f"{name}={value!r} is not a time zone such as Asia/Shanghai") from None
    return value


def env_list(name: str, default: str) -> list[str]:
    return [part.strip() for part in env_text(name, default).split(",") if part.strip()]
