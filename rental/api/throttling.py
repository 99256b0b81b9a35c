"""
Rate limits: a token bucket per API key in Valkey, one round trip a request.

Valkey holds hints only (DESIGN §3.1), so its absence must not refuse anybody: the limit fails
open, and a failure keeps us from asking again for a few seconds.
"""

import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import redis
import structlog
from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

log = structlog.get_logger()

# GCRA: one number per key, the instant at which the bucket would be full again.
# Returns {allowed, requests left, seconds until the next is allowed, seconds until full}.
_SCRIPT = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local step = window / limit
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local after = full + step
if after - now > window then
  return {0, 0, tostring(after - now - window), tostring(full - now)}
end
redis.call('SET', KEYS[1], string.format('%.6f', after), 'PX', math.ceil(window * 1000))
return {1, math.floor((window - (after - now)) / step), '0', tostring(after - now)}
"""

_PAUSE = 5.0  # seconds without asking after Valkey failed to answer
_SHORT = 0.25  # seconds that a request may lose to a Valkey that hangs


@dataclass(frozen=True)
class Verdict:
    """What the bucket says; times in seconds."""

    allowed: bool
    left: int
    wait: float
    reset: float


class _Bucket:
    def __init__(self, url: str) -> None:
        self.client: redis.Redis = redis.Redis.from_url(
            url, socket_timeout=_SHORT, socket_connect_timeout=_SHORT
        )
        self.script = self.client.register_script(_SCRIPT)
        self.silent_until = 0.0
        self.lock = threading.Lock()

    def take(self, name: str, *, limit: int, window: float) -> Verdict | None:
        """Take one request out of the bucket. None when Valkey does not answer."""
        if time.monotonic() < self.silent_until:
            return None
        try:
            allowed, left, wait, reset = self.script(keys=[f"rate:{name}"], args=[limit, window])
        except (redis.RedisError, OSError) as error:
            with self.lock:
                self.silent_until = time.monotonic() + _PAUSE
            log.warning("api.rate_limit_away", error=str(error))
            return None
        return Verdict(bool(allowed), int(left), float(wait), float(reset))


@cache
def _bucket(url: str) -> _Bucket:
    return _Bucket(url)


class KeyThrottle(BaseThrottle):
    """``RATE_LIMIT_REQUESTS`` per ``RATE_LIMIT_WINDOW`` and key; ``RATE_LIMITS_ENABLED``."""

    def __init__(self) -> None:
        self.verdict: Verdict | None = None

    def allow_request(self, request: Request, view: Any) -> bool:
        if not settings.RATE_LIMITS_ENABLED:
            return True
        limit, window = settings.RATE_LIMIT_REQUESTS, settings.RATE_LIMIT_WINDOW.total_seconds()
        name = str(getattr(request.auth, "id", None) or self.get_ident(request))
        self.verdict = _bucket(settings.REDIS_URL).take(name, limit=limit, window=window)
        if self.verdict is None:
            return True
        view.rate_headers = {
            "RateLimit-Policy": f'"key";q={limit};w={int(window)}',
            "RateLimit": f'"key";r={self.verdict.left};t={int(self.verdict.reset + 0.999)}',
        }
        return self.verdict.allowed

    def wait(self) -> float | None:
        return self.verdict.wait if self.verdict else None
