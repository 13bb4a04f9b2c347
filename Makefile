PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup browser demo test properties fuzz mutants lint types speed length scale load soak catalog results clean

help: ## What can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) browser ## Create .venv with everything that the demo and the tests need

$(STAMP): pyproject.toml constraints.txt
	command -v $(PYTHON) >/dev/null && $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[all,dev]"
	touch $@

browser: # Tests in a real browser take Debian's chromium; without it they are skipped
	@command -v chromium >/dev/null \
		|| { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get update -qq \
			&& DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends chromium >/dev/null; } \
		|| echo "chromium is not there and cannot be installed; tests in a browser will be skipped"

demo: setup ## Train four models on the built-in sample: what gaps cost, and what comes back
	$(BIN)/lacuner demo

test: setup ## Run the tests, on all cores
	$(BIN)/python -m pytest -n auto --dist loadfile

properties: setup ## Run the property tests with random inputs, many more than `make test` tries
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -m "hypothesis and not slow"

fuzz: setup ## Damaged and made-up input for all readers, settings, recipes and models (make fuzz SEED=2 SECONDS=600)
	LACUNER_FUZZ_SEED=$(or $(SEED),1) LACUNER_FUZZ_SECONDS=$(or $(SECONDS),300) $(BIN)/python -m pytest -n auto tests/fuzz

mutants: setup ## Small changes to the code, each of which a test should notice (make mutants COUNT=300 SEED=1)
	$(BIN)/python benchmarks/mutation.py --count $(or $(COUNT),300) --seed $(or $(SEED),1)

lint: setup ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## Check types
	$(BIN)/mypy

speed: setup ## Cost of models against the bare encoder, of annotate against spaCy; writes build/speed.json
	$(BIN)/python benchmarks/speed.py

length: setup ## Cost of one sentence of 100 to 100,000 words, as the table and figure of docs/architecture.md
	$(BIN)/python benchmarks/length.py --figure docs/images/length.png

scale: setup ## Many kills, memory and cost of large inputs (hours; make scale GIGABYTES=1 KILLS=20 MODEL=FOLDER)
	$(BIN)/python benchmarks/scale.py --gigabytes $(or $(GIGABYTES),1) --kills $(or $(KILLS),20) \
		$(if $(MODEL),--model $(MODEL)) --figure docs/images/scale.png

load: setup ## How long 50 reviewers wait for answers about 60,000 findings
	$(BIN)/python benchmarks/review_load.py

soak: setup ## 64 clients ask a server for five minutes: no error, memory flat, every answer as predict gives it
	$(BIN)/python benchmarks/serve_load.py

catalog: setup ## Describe all methods in src/lacuner/cli/catalog.json, after one of them or a setting has changed
	$(BIN)/python -c "from lacuner.cli.catalog import write_catalog; write_catalog()"

results: setup ## The main results, from the corpora below LACUNER_DATA (days on two cores), and the tables in the pages
	$(BIN)/lacuner bench distant --out docs/results/distant
	$(BIN)/lacuner bench masked --out docs/results/masked
	$(BIN)/lacuner bench tables README.md docs/threshold.md

clean: ## Remove everything that was made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
