"""
Settings of the tests: those of the product, over servers that are thrown away afterwards.

Read before any other module of ours (pytest-django imports it first), so that DATABASE_URL and
REDIS_URL stand in the environment when ``config.settings`` reads it. Workers of pytest-xdist
inherit them from the controller and start nothing. Set DATABASE_URL to use a server that runs.
"""

import os
from datetime import timedelta

os.environ.setdefault("SECRET_KEY", "tests-only")
os.environ.setdefault("SECRETS_KEY", "dGVzdHMgb25seSwgdGVzdHMgb25seSwgdGVzdHMhISE=")

if "DATABASE_URL" not in os.environ or "REDIS_URL" not in os.environ:
    from config.embedded.throwaway import start_throwaway

    start_throwaway()

from config.settings import *  # noqa: E402, F403

# Hashing a password well takes 0.2 s; no test asks for that.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# Each test sees the stock that it made.
SCHEDULER_STOCK_KEPT = timedelta(0)

# Most tests of the admin are not about who gets in; tests/tenants/test_staff.py are.
STAFF_MFA_REQUIRED = False
