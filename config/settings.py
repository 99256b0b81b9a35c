"""All settings, one file. Every value a deployment may change is read from the environment."""

import warnings
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from csp.constants import NONCE
from django.core.management.utils import get_random_secret_key
from django.utils.translation import gettext_lazy as _

from config.env import (
    BadSetting,
    env_bool,
    env_choice,
    env_int,
    env_key,
    env_list,
    env_money,
    env_seconds,
    env_text,
    env_zone,
)
from config.logs import configure

BASE_DIR = Path(__file__).resolve().parent.parent


# Connections of a web process to PostgreSQL: rental/api/threads.py lets no more requests work.
WEB_CONNECTIONS = 6


def _database(url: str, *, pool: bool) -> dict[str, object]:
    """Turn postgresql://user:password@host:port/name?host=/socket/dir into Django's dict."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise BadSetting(f"DATABASE_URL must begin with postgresql://, not {parts.scheme!r}")
    query = parse_qs(parts.query)
    # PostgreSQL guesses too many rows from ``unnest`` and would compile for a second what runs for
    # a tenth (billing.services.due).
    options: dict[str, object] = {"connect_timeout": 5, "options": "-c jit=off"}
    if pool:
        # Under ASGI a kept connection leaks per request; psycopg's pool is the cure.
        options["pool"] = {
            "min_size": 1,
            "max_size": WEB_CONNECTIONS,
            "timeout": 5,
            "max_lifetime": 1800,
        }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": (query.get("host") or [parts.hostname or ""])[0],
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 0 if pool else 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


# --- Django
DEBUG = env_bool("DEBUG", False)
# Signs sessions and cursors. Unset, each process makes its own, which is enough for commands; the
# web process refuses to start without one (config/asgi.py).
SECRET_KEY = env_text("SECRET_KEY", "") or get_random_secret_key()
SECRET_KEY_IS_SET = bool(env_text("SECRET_KEY", ""))
ALLOWED_HOSTS = env_list("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("CSRF_TRUSTED_ORIGINS", "")
# True behind a proxy that ends TLS and sets X-Forwarded-Proto: cookies then travel over TLS only.
HTTPS = env_bool("HTTPS", False)
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "tenants.User"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "var" / "static"
# What was built, not what it is built from.
STATICFILES_DIRS = [(part, BASE_DIR / "static" / part) for part in ("dist", "img", "operate")]

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "pgtrigger",
    "channels",
    "csp",
    # Not its own configuration, which sets loaders behind our back; TEMPLATES below has them.
    "django_cotton.apps.SimpleAppConfig",
    "rest_framework",
    "drf_spectacular",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    # Ours, from the lowest floor up.
    "rental.tenants",
    "billing",
    "scheduler",
    "rental",
    "config",
]

# The first gives every request its id; the last, being sync, keeps all of them in one thread.
MIDDLEWARE = [
    "rental.api.middleware.request_ids",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "config.security.relax_admin",
    "rental.operate.page.in_billing_time",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "rental.web.language.follow_user",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "rental.api.middleware.in_one_thread",
]

# The first, cotton's, compiles <c-name> of templates/cotton/; ours draws icons before it looks.
_LOADERS = [
    "rental.web.loader.Loader",
    "django.template.loaders.filesystem.Loader",
    "django.template.loaders.app_directories.Loader",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            # While developing, a changed template shows at the next request.
            "loaders": _LOADERS if DEBUG else [("django.template.loaders.cached.Loader", _LOADERS)],
            "builtins": ["django_cotton.templatetags.cotton", "rental.web.templatetags.drawn"],
            "libraries": {
                "tessera": "rental.web.templatetags.tessera",
                "prices": "rental.web.templatetags.prices",
                "operate": "rental.operate.filters",
            },
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
# Drawn parts of pages ({% cache %}), kept by all that they are drawn from; of this process alone.
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "template_fragments": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": "template-fragments",
        "OPTIONS": {"MAX_ENTRIES": 2_000},
    },
}
# A component sees its attributes and the context processors', not the page's variables by accident.
COTTON_ISOLATE_BY_DEFAULT = True
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]

# --- log in (who may: the block of tenants, below)
ACCOUNT_LOGIN_METHODS = {"email", "phone"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_PREVENT_ENUMERATION = True
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/console"
LOGOUT_REDIRECT_URL = "/"

# --- what browsers are told
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 31_536_000
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'", NONCE],
        "style-src": ["'self'", NONCE],
        "img-src": ["'self'", "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# --- static files: served by whitenoise, from STATIC_ROOT where `collectstatic` has filled it
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.static.CollectedStatic"},
}
warnings.filterwarnings("ignore", message="No directory at", category=UserWarning)  # not filled

# --- logs
LOG_FORMAT = env_choice("LOG_FORMAT", "json", choices=("json", "console"))
LOG_LEVEL = env_choice("LOG_LEVEL", "INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
LOGGING = configure(output=LOG_FORMAT, level=LOG_LEVEL)

# --- servers
# Web and gateway set DATABASE_POOL=1; workers keep one plain connection each.
DATABASES = {
    "default": _database(
        env_text("DATABASE_URL", "postgresql:///tessera"), pool=env_bool("DATABASE_POOL", False)
    )
}
REDIS_URL = env_text("REDIS_URL", "redis://127.0.0.1:6379/0")

# --- hints
# False drops every hint to Celery; sweeps find the work all the same (the black-hole test).
HINTS_ENABLED = env_bool("HINTS_ENABLED", True)

# --- billing
BILLING_TIME_ZONE = env_zone("BILLING_TIME_ZONE", "Asia/Shanghai")
BILLING_CURRENCY = env_text("BILLING_CURRENCY", "CNY")

# --- scheduler
SCHEDULER_NODE_SUSPECT = env_seconds("SCHEDULER_NODE_SUSPECT", 12)
SCHEDULER_NODE_LOST = env_seconds("SCHEDULER_NODE_LOST", 24)
# No silence counts until the server itself has listened this long without a break.
SCHEDULER_DEAF_GRACE = env_seconds("SCHEDULER_DEAF_GRACE", 60)
# Placements that one transaction commits.
SCHEDULER_BATCH = env_int("SCHEDULER_BATCH", 200, minimum=1)
# A request that found no place for this long expires.
SCHEDULER_REQUEST_TTL = env_seconds("SCHEDULER_REQUEST_TTL", 24 * 3600, minimum=1)
# How long what cannot be moved stays on a node that an operator drains, unless he names a time.
SCHEDULER_SPOT_NOTICE = env_seconds("SCHEDULER_SPOT_NOTICE", 300, minimum=1)
SCHEDULER_DRAIN_NOTICE = env_seconds("SCHEDULER_DRAIN_NOTICE", 3600, minimum=0)
# A maintenance window begins no sooner than this after it is announced: a day to make room.
SCHEDULER_MAINTENANCE_NOTICE = env_seconds("SCHEDULER_MAINTENANCE_NOTICE", 24 * 3600, minimum=0)
# How long a web process shows the stock that it has read. Placement never looks at it.
SCHEDULER_STOCK_KEPT = env_seconds("SCHEDULER_STOCK_KEPT", 10, minimum=0)

# --- instances
# Seals the secrets that tenants keep and instances' passwords. Unset, none can be kept; lost, all
# are.
SECRETS_KEY = env_key("SECRETS_KEY")

# --- api
REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "rental.api.schema.ContractSchema",
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tessera",
    "VERSION": "1",
    "DESCRIPTION": "Rent GPUs by the card and by the slice. See docs/api.md.",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "POSTPROCESSING_HOOKS": [],  # enums stay where they are used
    "SERVE_INCLUDE_SCHEMA": False,
    "DISABLE_ERRORS_AND_WARNINGS": False,
}
# Requests that one API key may make in one window; more are answered 429. False lifts it.
RATE_LIMITS_ENABLED = env_bool("RATE_LIMITS_ENABLED", True)
RATE_LIMIT_REQUESTS = env_int("RATE_LIMIT_REQUESTS", 600, minimum=1)
RATE_LIMIT_WINDOW = env_seconds("RATE_LIMIT_WINDOW", 60, minimum=1)

# --- tenants
ACCOUNT_ADAPTER = "rental.tenants.adapters.AccountAdapter"
# Who may open a tenant by himself. Off: users come from invitations and from the admin.
SIGNUP_ENABLED = env_bool("SIGNUP_ENABLED", False)
# "code": a contact is proved before anything is made; where no mail or SMS goes out, staff read
# the code in the admin and pass it on. "none": whoever types a contact has it.
SIGNUP_VERIFICATION = env_choice("SIGNUP_VERIFICATION", "code", choices=("none", "code"))
# Given once a contact, in micro-units of the billing currency.
SIGNUP_TRIAL_CREDIT = env_money("SIGNUP_TRIAL_CREDIT", "0")
# New tenants that one address on the network may open in an hour.
SIGNUP_LIMIT = env_int("SIGNUP_LIMIT", 20, minimum=1)
# Where the operator's terms are, and which edition: set, signing up takes agreeing to them.
SIGNUP_TERMS_URL = env_text("SIGNUP_TERMS_URL", "")
SIGNUP_TERMS_VERSION = env_text("SIGNUP_TERMS_VERSION", "1")
# Staff open no page of the admin before they have a second factor.
STAFF_MFA_REQUIRED = env_bool("STAFF_MFA_REQUIRED", True)
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "Tessera"
MFA_TOTP_TOLERANCE = 1  # a phone's clock may be off by half a minute
ACCOUNT_RATE_LIMITS = {"signup": f"{SIGNUP_LIMIT}/h/ip"}
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "rental.tenants.passwords.MinimumLength",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator",
        "OPTIONS": {"user_attributes": ("email", "phone", "name")},
    },
]

# --- admin
# Where nodes reach the gateway (https://…); shown in the command that enrols one.
GATEWAY_URL = env_text("GATEWAY_URL", "")
UNFOLD = {
    "SITE_TITLE": "Tessera",
    "SITE_HEADER": "Tessera",
    "SITE_SUBHEADER": _("Operator"),
    "SITE_SYMBOL": "grid_view",
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": "rental.operate.sidebar.favicon",
        }
    ],
    "SITE_URL": "/",
    "SHOW_LANGUAGES": True,
    "STYLES": ["rental.operate.sidebar.stylesheet"],
    "SCRIPTS": ["rental.operate.sidebar.script"],
    "SIDEBAR": {"navigation": "rental.operate.sidebar.navigation", "show_search": True},
    # The petrol of the console's theme (static/css/src/theme.css).
    "COLORS": {
        "primary": {
            "50": "oklch(97% 0.012 205)",
            "100": "oklch(94% 0.025 205)",
            "200": "oklch(88% 0.045 205)",
            "300": "oklch(82% 0.07 205)",
            "400": "oklch(78% 0.09 202)",
            "500": "oklch(72% 0.095 202)",
            "600": "oklch(44% 0.082 210)",
            "700": "oklch(39% 0.075 210)",
            "800": "oklch(33% 0.06 212)",
            "900": "oklch(28% 0.05 214)",
            "950": "oklch(21% 0.035 216)",
        }
    },
}
