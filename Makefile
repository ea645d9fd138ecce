# Each target sets up what it needs. `make demo` and `make test` are all that a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin

# Where it is set, as in many containers, every kernel that the tests start compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: demo test test-all steady pytest nbval lazy collaboration floors canary soak lab lint js protocol build-js dist docs bench effect questions screenshots tour models parts clean

## Run the quickstart headless, on the embedded default: no key, no network; one change is denied.
demo: .venv/lab
	@$(BIN)/python notebooks/demo.py

# The parts of the tests run beside each other, one more than there are processors, since most wait
# for kernels and servers; the output of each is shown when it ends.
ifneq ($(filter test pytest,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=$(shell expr $$(nproc) + 1) --keep-going --output-sync
endif
quietly = ( $(1) ) > .venv/$@.log 2>&1 && echo "$@: passed" || { cat .venv/$@.log; echo "$@: FAILED"; exit 1; }

# The tests of each folder run in a process of their own, which stays small; the longest begin first.
LONGEST := tests/kernel tests/browser tests/tools tests/agent tests/services
FOLDERS := $(LONGEST) $(filter-out $(LONGEST) tests/benchmarks tests/values/lazy_data,$(sort \
	$(patsubst %/,%,$(dir $(wildcard $(addsuffix /test_*.py,tests tests/* tests/*/*))))))
.PHONY: $(FOLDERS)

## Run the tests that prove every requirement: Python, kernels, JupyterLab, notebooks, TypeScript.
test: .venv/sandbox labextension/node_modules/.yarn-state.yml
	@$(MAKE) --no-print-directory parts

# In this order, since all that they need is there: what is short comes last, so that none waits alone.
parts: $(LONGEST) js nbval lint pytest

## Run everything: also the slow tests, the oldest dependencies, the distribution, the documentation.
test-all:
	$(MAKE) .venv/postgres
	$(MAKE) test
	$(BIN)/python -m pytest -m 'slow and not alone' -n logical --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest -m 'slow and alone'
	cd labextension && EVERY_VECTOR=1 ../$(BIN)/jlpm vitest run hostile
	$(MAKE) lazy collaboration floors dist docs

## Run the tests five times in clean clones, twice beside other work: red and slow ones are listed.
steady:
	$(PYTHON) tests/steady.py

pytest: $(FOLDERS)

$(FOLDERS): .venv/sandbox
	@echo "$@:"
	@$(BIN)/python -m pytest -q -m 'not slow' --durations=3 $(wildcard $@/test_*.py)

nbval: .venv/test
	@$(call quietly,env IPYAGENT_AGENT__CONFIRM_MODE=yolo IPYAGENT_LLM__MODEL=offline/explorer \
		IPYAGENT_CHAT__PERSIST=false XDG_CONFIG_HOME=$(abspath .venv/nbval) \
		XDG_DATA_HOME=$(abspath .venv/nbval) PYTHONPATH=tests \
		$(BIN)/python -m pytest -p leftovers --nbval --nbval-kernel-name=python3 -p no:cacheprovider \
		-o addopts= -W default notebooks)

## Run the kernel tests on exactly the oldest versions that pyproject.toml allows.
floors: .venv-floors/test
	.venv-floors/bin/python -m pip check
	.venv-floors/bin/python -m pytest -m 'not alone' -W default --disable-warnings \
		-n logical --dist loadfile \
		tests/kernel tests/rehearsal tests/values tests/llm/test_gateway.py \
		tests/explorer/test_explorer.py

## Run the tests of lazy data, and of libraries on a copy of the kernel, in an environment with these.
lazy: .venv-lazy/lazy
	.venv-lazy/bin/python -m pytest tests/values/lazy_data tests/values/test_polars_plans.py \
		tests/test_map_on_dask.py tests/test_map_on_engines.py
	.venv-lazy/bin/python -m pytest tests/rehearsal/test_libraries.py tests/rehearsal/test_fresh_kernel.py \
		tests/rehearsal/test_readings.py

## Run the tests of two users in one document, in an environment with jupyter-collaboration.
collaboration: .venv-collaboration/collaboration .venv/browser
	.venv-collaboration/bin/python -m pytest tests/browser/two_users.py

## Run what depends on LiteLLM, IPython, ipykernel and JupyterLab on their newest versions,
## also on those that pyproject.toml does not allow yet.
canary: .venv-canary/test
	$(call install,.venv-canary,--upgrade litellm ipython ipykernel jupyterlab)
	.venv-canary/bin/python -m pip freeze | grep -E '^(litellm|ipython|ipykernel|jupyterlab)=='
	sh tests/browser/install_chromium.sh .venv-canary/bin/python
	.venv-canary/bin/python -m pytest -m 'not alone' -n logical --dist loadfile \
		tests/house/test_private_names.py tests/llm tests/kernel tests/rehearsal tests/values \
		tests/browser/test_agent_cells.py

## What `make test` samples, at full count and with new examples: kills, power cuts, cut streams, interrupts.
soak: .venv/test
	env JOURNAL_TEST_KILLS=60 JOURNAL_TEST_POINTS=500 JOURNAL_TEST_CUTS=200 STREAMS_TEST_EVERY_BYTE=1 \
		INTERRUPT_TEST_MOMENTS=1000 REHEARSAL_TEST_COUNT=1000 REHEARSAL_TEST_PROGRAMS=500 \
		UNDO_TEST_PROGRAMS=2000 HYPOTHESIS_PROFILE=default $(BIN)/python -m pytest -o timeout=1200 \
		tests/store tests/schema tests/config tests/agent tests/redaction tests/llm/test_cuts.py \
		tests/kernel/test_interrupts.py tests/rehearsal tests/values

## Update the facts about models (prices, context windows), from LiteLLM's newest map.
models: .venv-canary/test
	$(call install,.venv-canary,--upgrade litellm)
	.venv-canary/bin/python packaging/model_facts.py

## Open JupyterLab on the quickstart, in a copy of the notebooks (build/notebooks).
lab: .venv/lab
	test -d build/notebooks || { mkdir -p build && cp -R notebooks build/notebooks; }
	cd build/notebooks && ../../$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) 01_quickstart.ipynb

lint: .venv/test
	@$(call quietly,$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports)

## Test the TypeScript; `make build-js` rebuilds the committed bundles after a change.
js: .venv/test labextension/node_modules/.yarn-state.yml
	@$(call quietly,$(BIN)/python labextension/protocol.py --check && cd labextension && ../$(BIN)/jlpm lint && ../$(BIN)/jlpm test)

## Generate the front end's types from the Python classes of the messages.
protocol: .venv/test labextension/node_modules/.yarn-state.yml
	$(BIN)/python labextension/protocol.py

build-js: .venv/test labextension/node_modules/.yarn-state.yml
	cd labextension && PATH="$(abspath $(BIN)):$$PATH" jlpm build

## Build wheel and source distribution into dist/, and use the wheel in an empty environment.
# The wheel is built from the source distribution, offline: neither needs Node.js.
dist: .venv/dist
	rm -rf dist
	env PIP_NO_INDEX=1 $(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python packaging/inspect_dist.py dist/*
	packaging/try_wheel.sh $(PYTHON) dist/*.whl

## Build the documentation site into docs/_build/html: notebooks executed, links checked, no network.
docs: .venv/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

## Compare CPU time with a raw client; BASE=REV: and with the code of that revision.
bench: .venv/test
	$(BIN)/python benchmarks/compare.py $(if $(BASE),--base $(BASE))

## Compare answers, requests and bytes of %%agent with a bare loop, with any model; without a key.
effect: .venv/test
	$(BIN)/python benchmarks/effect/compare.py --model "$(or $(MODEL),plain)" --base-url "$(BASE_URL)"

## Count how often sessions of analysis are asked about, with looks and without, and calls that
## only read, in many libraries.
questions: .venv/test .venv-lazy/lazy
	$(BIN)/python benchmarks/effect/questions.py
	.venv-lazy/bin/python benchmarks/effect/readings.py

## Take the README's pictures again, light and dark: JupyterLab in Chromium, into docs/.
screenshots: .venv/browser
	$(BIN)/python -m pytest -p no:cacheprovider -o timeout=600 tests/browser/screenshots.py

## Run the notebooks as a person does, in JupyterLab, and keep their outputs.
tour: .venv/browser
	$(BIN)/python -m pytest -p no:cacheprovider -o timeout=600 tests/browser/tour.py

.venv/browser: .venv/test
	sh tests/browser/install_chromium.sh $(BIN)/python
	touch $@

# After the browser, since one of them at a time may install packages.
.venv/sandbox: .venv/browser
	sh tests/tools/install_bubblewrap.sh
	touch $@

.venv/postgres: .venv/sandbox
	sh tests/store/install_postgres.sh
	touch $@

comma := ,
# uv installs in seconds, and pip where uv is not to be had or fails.
# usage: $(call install,ENVIRONMENT,WHAT)
define install
test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
{ $(1)/bin/python -m pip install --quiet uv && $(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2); } \
	|| $(1)/bin/python -m pip install --quiet $(2)
endef

# The built front end is copied into the environment when the package is installed.
.venv/lab .venv/test .venv-canary/test .venv-lazy/lazy .venv-collaboration/collaboration: pyproject.toml src/ipyagent/__init__.py src/ipyagent/labextension/package.json
	@echo "Installing ipyagent and all that '$(@F)' needs into $(@D): about a minute, once."
	@$(call install,$(@D),--editable ".[$(@F)$(comma)mcp]")
	touch $@

.venv/docs .venv/dist: pyproject.toml
	$(call install,$(@D),--editable ".[$(@F)]")
	touch $@

.venv-floors/constraints.txt: pyproject.toml tests/floors.py
	$(call install,$(@D),packaging)
	$(@D)/bin/python tests/floors.py > $@

.venv-floors/test: .venv-floors/constraints.txt src/ipyagent/labextension/package.json
	$(call install,$(@D),--constraint $< --editable ".[test]")
	touch $@

labextension/node_modules/.yarn-state.yml: labextension/package.json labextension/yarn.lock .venv/test
	@command -v node >/dev/null || { echo "The TypeScript tests need Node.js 20 or newer: install 'nodejs'."; exit 1; }
	cd labextension && ../$(BIN)/jlpm install --immutable
	touch $@

clean:
	rm -rf .venv .venv-floors .venv-canary dist build labextension/node_modules labextension/lib
