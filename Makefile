# `make reproduce` runs the paper's notebooks, `make test` checks the project, `make check` what takes longer, before a
# release. Each sets up what it needs first. PYTHON=python3.12 chooses the interpreter of a new environment, JOBS how many
# notebooks run at a time.
JOBS ?= 2
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
  $$name -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$name && break; done)
BIN = .venv/bin
SOURCES := $(shell find rndlib -name '*.py' -o -name '*.toml' -o -name '*.json') notebooks/practice.json
NOTEBOOKS := $(basename $(notdir $(wildcard notebooks/[0-9]*.ipynb)))
# The longest first, so that two cores stay busy to the end.
ORDER := $(foreach number,05 07 09 02 03 10 08 00 01 04 06,$(filter $(number)_%,$(NOTEBOOKS)))

# Each notebook has its share of the cores, and one thread of BLAS: its threads wait by spinning, on cores that the
# others need.
CORES := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1
THREADS := $(shell expr $(CORES) / $(JOBS) \| 1)
SHARE = env $(ONE_THREAD) PJRT_NPROC=$(THREADS) PYTHON_CPU_COUNT=$(THREADS)
SIDE_BY_SIDE = --no-print-directory --keep-going --jobs $(JOBS)
# Some forty processes import the same packages, in 11 s of CPU where nothing that is compiled is kept, and else in 4.
unexport PYTHONDONTWRITEBYTECODE
# What one part prints is shown when it has ended, where make can do that.
SYNC = $(if $(filter output-sync,$(.FEATURES)),--output-sync)

.PHONY: reproduce small test check store calibrate bench site environment lint units-1 units-2 papermill moved verdicts newest guard
.DELETE_ON_ERROR:

# After an interruption, only what is missing or older than its sources runs.
reproduce: environment
	@$(MAKE) $(SIDE_BY_SIDE) $(ORDER:%=results/%/executed.ipynb); $(BIN)/python -m rndlib.paper.verify

# The same at the small sizes of notebooks/smoke, for a quick look.
small: environment
	@$(MAKE) $(SIDE_BY_SIDE) $(ORDER:%=results/small/%/executed.ipynb); \
	$(BIN)/python -m rndlib.paper.verify $(NOTEBOOKS:%=results/small/%)

# papermill IN OUT of one notebook, with a bar on a terminal, each on a line of its own, and with a line in the end. A
# notebook that stops, or whose claims fail, leaves failed.ipynb in place of executed.ipynb.
define RUN
@rm -rf $(@D) && mkdir -p $(@D); begin=$$(date +%s); [ -t 2 ] || bar=--no-progress-bar; \
TQDM_POSITION=$(firstword $(subst _, ,$*)) $(SHARE) $(BIN)/papermill --log-level WARNING $$bar $< $(@D)/running.ipynb \
  $(1) && end=executed || end=failed; \
echo "$$($(BIN)/python -m rndlib.paper.verify --brief $(@D)), $$(expr $$(date +%s) - $$begin) s"; \
mv $(@D)/running.ipynb $(@D)/$$end.ipynb && [ $$end = executed ]
endef

results/%/executed.ipynb: notebooks/%.ipynb $(SOURCES)
	$(call RUN)

results/small/%/executed.ipynb: notebooks/%.ipynb $(SOURCES)
	$(call RUN,-f notebooks/smoke/$(firstword $(subst _, ,$*)).yaml)

# The outputs of the last `make reproduce` become those stored in notebooks/, which are then no newer than these.
store: environment
	$(BIN)/python ci/store.py $(NOTEBOOKS)
	touch $(NOTEBOOKS:%=results/%/executed.ipynb)

# How often is a verdict wrong? Over 200 seeds at the small size, five at the stored one, and with other data,
# activations, depths and scales of the weights. Hours; it resumes. STUDY=settings runs that one alone.
calibrate: environment
	$(BIN)/python ci/repeats.py $(STUDY)

# What things cost, compared with other ways to them, on an idle machine; SECTIONS=kernels measures that part alone.
# QUICK=1 takes small sizes and says which ratios have fallen by more than a third since QUICK=1 KEEP=1.
bench: environment
	$(BIN)/python ci/bench.py $(if $(QUICK),--quick) $(if $(KEEP),--keep) $(SECTIONS)

# What the stored notebooks show, with the reference and how-to pages, as a site in build/site.
site: environment
	$(BIN)/python ci/site_build.py

test: environment
	@$(MAKE) $(SIDE_BY_SIDE) $(SYNC) units-1 units-2 papermill moved lint

check: environment .venv-newest/stamp small
	@$(MAKE) $(SIDE_BY_SIDE) $(SYNC) verdicts newest; failed=$$?; $(MAKE) guard && exit $$failed

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo

# In two parts. Each compiled program takes several memory maps, of which Linux allows a process 65,530, and XLA crashes
# where it gets no more.
units-1:
	$(ONE_THREAD) $(BIN)/pytest $(filter-out tests/test_papermill.py,$(wildcard tests/test_[!a-j]*.py))

units-2:
	$(ONE_THREAD) $(BIN)/pytest tests/test_[a-j]*.py

# Three notebooks with other parameters, one of which a claim must fail.
papermill:
	$(ONE_THREAD) $(BIN)/pytest tests/test_papermill.py

# Each stored notebook runs again and must show what is stored. Then the numbers that they show rounded are compared in
# full.
moved: $(ORDER:%=again-%)
	$(BIN)/python ci/moved.py results/again

again-%:
	@rm -rf results/again/$* && mkdir -p results/again/$*
	$(SHARE) RNDLIB_OUTPUT=$(CURDIR)/results/again/$* $(BIN)/pytest -q --nbval --nbval-current-env notebooks/$*.ipynb

# Planted mistakes, repeats over seeds, statistical power, other processes, and the site in a browser.
verdicts:
	$(ONE_THREAD) $(BIN)/pytest -m "check or browser"

# All that depends on JAX's version: its primitives as rndlib uses them, every solver and estimator once against its
# definition, and the examples of every public name.
NEWEST = imports activations linearise stochastic descent exponential definitions docs
newest:
	$(ONE_THREAD) .venv-newest/bin/pytest -m "not neural_tangents and not torch" $(NEWEST:%=tests/test_%.py)

guard:
	$(BIN)/python ci/bench.py --quick

# The environments: the versions of ci/pins.txt, by uv where it is there and reaches its index, and else by pip. What
# builds packages comes first, as an isolated build would take whichever version is newest.
environment: .venv/stamp

.venv/stamp: EXTRAS = dev
.venv-newest/stamp: EXTRAS = figures,jax,test
.venv/stamp .venv-newest/stamp: ci/pins.txt pyproject.toml
	@test ! -L $(@D) || { echo "$(@D) is a link to another checkout's environment: remove the link"; exit 1; }
	@test -n "$(PYTHON)" || { echo "rndlib needs Python 3.11 to 3.13 with venv: install one, or call make PYTHON=..."; exit 1; }
	@test -x $(@D)/bin/python || { echo "$(@D): installing takes some minutes"; $(PYTHON) -m venv $(@D); }
	@sed -E $(if $(findstring newest,$@),'/^(jax|jaxlib)==/d; s/^# newest: //','') ci/pins.txt >$(@D)/pins.txt
	@for packages in "flit_core setuptools" "--no-build-isolation --editable .[$(EXTRAS)]"; do \
	  { command -v uv >/dev/null && uv pip install --quiet --python $(@D)/bin/python --constraint $(@D)/pins.txt $$packages; } || \
	  $(@D)/bin/python -m pip install --quiet --quiet --no-compile --constraint $(@D)/pins.txt $$packages || exit 1; done
	@$(@D)/bin/python -m pip check && touch $@
