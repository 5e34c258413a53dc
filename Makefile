# A fresh machine needs Python 3.11 or newer and make; everything else is installed into .venv and .cache.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
PY = .venv/bin/python

PROVIDER ?= memory
QUEUE_ADDRESS ?=
DEMO ?= examples/order_pipeline.py
ARGS ?=
PYTEST_ARGS ?=
# Most tests wait: two workers halve the time, on two cores too.  They share one LocalStack.
SPREAD ?= -n 2 --dist loadgroup
LOCALSTACK = $(PY) tools/localstack.py run
# Credentials that mean nothing, and none of the machine's own AWS set-up.
SERVER = env -u AWS_PROFILE -u AWS_SESSION_TOKEN AWS_ACCESS_KEY_ID=demo AWS_SECRET_ACCESS_KEY=demo AWS_REGION=us-east-1 \
	AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null \
	$(PY) -m messagequeue serve --log-level WARNING --

# Steps share .venv and .cache: `make -j` must not run them side by side.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test check format lint types pytest bench docs clean env-demo env-test

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: env-demo ## run the order pipeline; PROVIDER=sqs runs it on SQS wire (QUEUE_ADDRESS=... to say where)
ifeq ($(PROVIDER)$(QUEUE_ADDRESS),sqs)
	@MESSAGEQUEUE_PROVIDER=sqs $(SERVER) $(PY) $(DEMO) $(ARGS)
else
	@MESSAGEQUEUE_PROVIDER=$(PROVIDER) $(if $(QUEUE_ADDRESS),MESSAGEQUEUE_SQS_QUEUE_ADDRESS=$(QUEUE_ADDRESS)) $(PY) $(DEMO) $(ARGS)
endif

test: lint types ## every check: format, lint, types, all tests, wheel
	$(LOCALSTACK) -- $(PY) -m pytest $(SPREAD) $(PYTEST_ARGS)

check: lint types ## the quick half: format, lint, types, tests without network or processes
	$(PY) -m pytest -m "not integration and not acceptance and not slow" $(PYTEST_ARGS)

lint: env-test
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .

types: env-test
	$(PY) -m mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(PY) -m pyright --pythonpath $(PY)

format: env-test ## write the format and the fixes that ruff knows
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: env-test ## run the benchmarks
	@for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(PY) $$file || exit 1; done

docs: env-test ## write the tables of options, metrics and log events into README.md and docs/
	$(PY) tools/config_tables.py
	$(PY) tools/telemetry_tables.py

clean: ## remove everything that is not in the repository
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -prune -exec rm -rf {} +

env-demo env-test:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none is on PATH. Install one, or: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) tools/environment.py $(@:env-%=%)
