# Every target sets up what it needs; `make demo` and `make test` work on a fresh clone.
# Paths are relative throughout: the clone may lie anywhere, also below a folder with a space in its name.

PYTHON ?= python3
RUN := .venv/bin/python

.PHONY: install dev demo test quick check lint docs package audit bench clean

install: .venv/softkin

# What tests and hooks need, too.
dev: .venv/dev

demo: .venv/softkin
	$(RUN) -m softkin compare --output demo

test: .venv/dev
	@echo "All tests: about a quarter of an hour on two cores. The formulas alone: make quick."
	$(RUN) -m pytest --numprocesses auto --dist loadfile

# No simulations, no processes, no browser, no Ray, no other libraries: under four minutes on two cores.
quick: .venv/dev
	$(RUN) -m pytest --numprocesses auto --dist loadfile -m "not slow"

lint: .venv/dev
	$(RUN) -m pre_commit run --all-files

check: lint test

# The documentation, strict: build/site/index.html. `python scripts/docs_site.py` runs the gallery's scripts again.
docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

# Wheel and sdist, and the wheel in an empty environment without extras.
package: .venv/dev
	$(RUN) scripts/smoke.py $(SMOKE)

# Known vulnerabilities of the versions in constraints.txt; needs a network. See docs/dependencies.md.
audit: .venv/softkin
	test -x .venv/audit/bin/pip-audit || { $(RUN) -m venv .venv/audit && .venv/audit/bin/pip install --quiet pip-audit; }
	.venv/audit/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt

bench: .venv/dev
	$(RUN) benchmarks/core.py
	$(RUN) benchmarks/metrics.py
	$(RUN) benchmarks/calibrators.py
	$(RUN) benchmarks/decisions.py
	$(RUN) benchmarks/similarity.py
	$(RUN) benchmarks/data.py
	$(RUN) benchmarks/training.py
	$(RUN) benchmarks/alpha_cost.py
	$(RUN) benchmarks/study.py default
	$(RUN) benchmarks/study.py overhead
	$(RUN) benchmarks/study.py kills
	$(RUN) benchmarks/evaluate.py
	$(RUN) benchmarks/report.py

# One stamp a kind of installation, written last: an interrupted one is taken up again.
.venv/softkin: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "softkin needs Python 3.11 or newer; name one with PYTHON=…")'
	@echo "Installing softkin and what it needs into .venv: a minute or two the first time."
	test -x $(RUN) || $(PYTHON) -m venv .venv
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/dev: .venv/softkin
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,peers]"
	touch $@

clean:
	rm -rf .venv demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
