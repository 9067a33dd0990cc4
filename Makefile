# Two commands for a newcomer: make demo, make test. Everything happens in .venv of this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Setuptools warns in ten lines that editable_mode=compat (below) may go one day.
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --constraint constraints.txt
# Two marks: what the demo needs, and everything.
READY_FOR_DEMO := $(VENV)/ready-for-demo
READY := $(VENV)/ready
.DEFAULT_GOAL := help

.PHONY: help setup demo test check test-only soak properties chaos endurance brokers hostile mutations coverage audit bench bench-peers bench-sink bench-groups bench-multicast bench-scaling figures reference site clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(READY) ## make the virtual environment (other targets do this themselves)

# PySpark first: it brings the Ivy that fetches Kafka's jars, while pip has the rest to do (what goes
# wrong there is seen by whoever needs the jars). Modules are compiled when they are first imported.
# editable_mode=compat: the packages' folder as a plain path, which type checkers follow to py.typed.
$(READY_FOR_DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else "Python 3.11, 3.12 or 3.13 is needed; say make PYTHON=python3.12 …")'
	@echo "installing into $(VENV) (PySpark is large: a minute or more, once)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --no-compile pyspark
	@{ $(BIN)/python -m streaming.kafka.jars > /dev/null 2>&1 & } \
		&& $(PIP) --no-compile --config-settings editable_mode=compat --editable '.[demo]' \
		&& wait
	@touch $@

# All modules are compiled: tests start hundreds of processes, and not everybody lets Python write.
$(READY): pyproject.toml constraints.txt
	@test -e $(READY_FOR_DEMO) || $(MAKE) --no-print-directory $(READY_FOR_DEMO)
	@echo "installing what tests need" >&2
	@$(PIP) --config-settings editable_mode=compat --editable '.[test]'
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null || true
	@touch $(READY_FOR_DEMO) $@

demo: export PYTHONDONTWRITEBYTECODE :=
demo: $(READY_FOR_DEMO) ## order 40,000 flights of three airports, live, on a broker of its own
	@$(BIN)/sequencer demo

check: $(READY) ## lint and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --no-error-summary

test: check test-only ## lint, types and all tests in their short form

# Four processes that take module after module, those with Kafka first (tests/conftest.py): where
# one waits, for Spark or for a limit to pass, another has the core. One that dies ends the run: with
# modules kept whole, pytest-xdist may wait for ever for what was in it.
SHORT := -n 4 --max-worker-restart 0
# Hundreds of processes import the same modules: compiled once, also where the environment wants no
# bytecode.
test-only soak properties chaos endurance brokers hostile mutations coverage: export PYTHONDONTWRITEBYTECODE :=

test-only: $(READY)
	@$(BIN)/python -m pytest $(SHORT)

soak: $(READY) ## the long forms: random kills, broker outages, thousands of simulations
	@$(BIN)/python -m pytest -m slow

properties: export SEQUENCER_EXAMPLES ?= 20
properties: $(READY) ## property tests with other random examples in each run, 20 times as many (SEQUENCER_EXAMPLES)
	@$(BIN)/python -m pytest -n 2 --timeout 3600 $$(grep -rl --include='test_*.py' '^@given\|RuleBasedStateMachine' tests)

chaos: $(READY) ## faults of processes, network, brokers, files: a table of what came of them (CHAOS="--seed 2 --times 3")
	@PYTHONPATH=. $(BIN)/python -m tests.chaos.run $(CHAOS)

endurance: $(READY) ## a service at work with a fault a minute: nothing may grow (five minutes; ENDURANCE="--minutes 60 --plot x.png")
	@PYTHONPATH=. $(BIN)/python -m tests.chaos.endurance $(ENDURANCE)

brokers: $(READY) ## each version of Kafka that is claimed: originals, a service, Kafka's own tool (some minutes)
	@$(BIN)/python -m pytest -m slow tests/originals/test_brokers.py tests/originals/test_segments.py

hostile: $(READY) ## 200,000 records as nobody sends them in good faith (SEQUENCER_HOSTILE: more)
	@$(BIN)/python -m pytest -m slow tests/streaming/disciplines/channels/test_hostile.py

mutations: $(READY) ## 10,000,000 damaged record batches: an error with its place, never a hang, no memory kept (SEQUENCER_MUTATED: fewer)
	@$(BIN)/python -m pytest -s -m slow tests/streaming/wire/test_mutated.py

coverage: $(READY) ## lines and branches that the short form of the tests reaches, Spark's workers left out
	@$(BIN)/python -m pytest $(SHORT) --cov --cov-report=term --quiet

# In an environment of its own: the scanner's dependencies are none of ours.
audit: ## known faults of what constraints.txt pins; asks PyPI (AUDIT="-s osv": OSV)
	@test -x $(VENV)-audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)-audit \
		&& $(VENV)-audit/bin/python -m pip install --quiet pip-audit; }
	@$(VENV)-audit/bin/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt $(AUDIT)

bench: $(READY) ## channels beside a stateless Spark copy at its best: rates, latency, start (25 minutes)
	@$(BIN)/python bench/channels.py

bench-peers: $(READY) ## channels beside Flink, Kafka Streams and plain Python, in turns (an hour; a JDK, Maven)
	@$(BIN)/python bench/compare.py

bench-sink: $(READY) ## what the sink costs for a record, compressed and not (a minute)
	@$(BIN)/python bench/sink.py

bench-groups: $(READY) ## the same for 8, 16, 32 and 64 groups (20 minutes)
	@$(BIN)/python bench/groups.py

bench-multicast: $(READY) ## the same for multicast, by destinations and beside groups (half an hour)
	@$(BIN)/python bench/multicast.py

bench-scaling: $(READY) ## channels on a standalone cluster: CPU, shuffle, the driver's time a batch (15 minutes)
	@PYTHONPATH=. $(BIN)/python bench/scaling.py

figures: $(READY) ## measure and draw the figures, tables included, of docs (some minutes)
	@$(BIN)/sequencer simulate --output docs/figures --page docs/simulation.md \
		--page docs/overlaps.md --page docs/multicast-protocols.md > /dev/null

reference: $(READY) ## write docs/reference.md anew, from the code
	@PYTHONPATH=. $(BIN)/python -m tests.reference

# The site's generator is an extra that nobody else needs: installed when the site is first built.
$(VENV)/site: $(READY)
	@$(PIP) --config-settings editable_mode=compat --editable '.[docs]'
	@touch $@

site: $(VENV)/site ## the documentation as a site in build/site; a link that leads nowhere is an error
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -c docs/site . build/site
	@echo "build/site/index.html" >&2

clean: ## remove what make made
	@rm -rf $(VENV) $(VENV)-audit build *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage*
