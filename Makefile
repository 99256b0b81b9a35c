# The front door. `make` alone prints what there is.
PY ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST ?= $(BIN)/pytest
# What an install is made of; a change of one of these installs again.
DEMO_LOCKS := requirements/server.lock requirements/agent.lock requirements/embedded.lock
INSTALL := $(BIN)/python requirements/install.py
# Whatever needs no server must not find one either.
NO_DATABASE := DATABASE_URL=postgresql://nobody@127.0.0.1:1/none REDIS_URL=redis://127.0.0.1:1/0

.DEFAULT_GOAL := help
.PHONY: help machine demo test test-pure check fix lint types floors migrations openapi messages messages-check assets assets-check big lock clean

help: ## print this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

machine: ## say what this machine lacks
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "This needs Python 3.11 or newer as '$(PY)'; found: $$($(PY) --version 2>&1)."; \
	  echo "Debian 12: apt-get install python3 python3-venv. Elsewhere: make demo PY=/path/to/python3.11"; exit 1; }
	@$(PY) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "Python's venv module is not here. Debian and Ubuntu: apt-get install python3-venv"; exit 1; }

$(VENV)/.demo: $(DEMO_LOCKS) | machine
	@test -x $(BIN)/python || { echo "making $(VENV) …"; $(PY) -m venv $(VENV); }
	@echo "installing (about 40 packages, once) …"
	@$(INSTALL) $(DEMO_LOCKS)
	@touch $@

$(VENV)/.ok: requirements/dev.lock | machine
	@test -x $(BIN)/python || { echo "making $(VENV) …"; $(PY) -m venv $(VENV); }
	@echo "installing with the tools of development (about 100 packages, once) …"
	@$(INSTALL) requirements/dev.lock
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## run everything on this machine, with logins, money and two agents
	@exec $(BIN)/python manage.py up --demo

test: $(VENV)/.ok ## all tests, on a PostgreSQL and a Valkey of their own
	@$(PYTEST) -n 3 --dist loadgroup

test-pure: $(VENV)/.ok ## the pure cores: no database, seconds
	@$(NO_DATABASE) $(PYTEST) -m pure

check: lint floors types migrations openapi messages-check assets-check test ## all of CI, cheapest first

fix: $(VENV)/.ok ## format and repair what can be repaired
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: $(VENV)/.ok ## format and style
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: $(VENV)/.ok ## mypy, strict
	@$(BIN)/mypy config rental billing scheduler agents client

floors: $(VENV)/.ok ## who may import whom
	@$(BIN)/lint-imports

migrations: $(VENV)/.ok ## every change of a model has its migration
	@$(NO_DATABASE) $(BIN)/python -W ignore manage.py makemigrations --check --dry-run

openapi: $(VENV)/.ok ## docs/openapi.json is what the code says
	@$(NO_DATABASE) $(BIN)/python manage.py openapi --check

messages: $(VENV)/.ok ## collect and compile the translations (needs gettext)
	@$(NO_DATABASE) $(BIN)/python -W ignore manage.py messages

messages-check: $(VENV)/.ok ## every text has its Chinese words
	@$(NO_DATABASE) $(BIN)/python -W ignore manage.py messages --check

node_modules/.ok: package.json package-lock.json
	@command -v npm >/dev/null || { echo "This needs Node 18 or newer with npm. Debian: apt-get install nodejs npm"; exit 1; }
	@npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

assets: node_modules/.ok ## build static/dist from static/{css,js}/src (needs Node; nothing else does)
	@node static/build.mjs

assets-check: node_modules/.ok ## static/dist is what the sources give, byte by byte
	@made=$$(mktemp -d) && trap 'rm -rf "$$made"' EXIT && node static/build.mjs "$$made/dist" >/dev/null && \
	  diff -rq static/dist "$$made/dist" || { echo "static/dist is stale: make assets, then commit it"; exit 1; }

big: ## the ten largest files and functions
	@git ls-files '*.py' | grep -vE '(^|/)migrations/' | xargs wc -l | grep -v ' total$$' | sort -rn | head -10
	@$(PY) -m tests.house.big

lock: ## renew the lock files (needs uv)
	@cd requirements && for spec in server:3.11 agent:3.10 client:3.10 embedded:3.11 dev:3.11; do \
	  echo "$$spec"; uv pip compile -q --universal --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --python-version $${spec#*:} $${spec%:*}.in -o $${spec%:*}.lock || exit 1; done

clean: ## remove everything that was made: data, environment, caches
	@$(PY) -m config.embedded forget var
	@rm -rf var $(VENV) node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
