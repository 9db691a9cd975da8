# `make reproduce` runs the paper's notebooks, `make test` checks everything. Both set up what they need first.
# PYTHON=python3.12 chooses the interpreter of the environments, PROFILE=smoke small sizes for a quick look, and JOBS how
# many notebooks run at a time.
PROFILE ?= paper
JOBS ?= 2
BIN = .venv/bin
NOTEBOOKS = $(sort $(basename $(notdir $(wildcard notebooks/*.ipynb))))
# In the order that keeps two cores busy to the end: the three longest first. 07 takes the most memory, 2.8 GB, beside 1.5
# of 05.
BALANCED = $(foreach number,05 06 07 02 03 08 00 04 01,$(filter $(number)_%,$(NOTEBOOKS)))
ORDER = $(BALANCED) $(filter-out $(BALANCED),$(NOTEBOOKS))
# A notebook keeps a second core busy for part of the time only. Two at a time with one thread each take two thirds of
# the time of one after the other with two threads each.
SHARE = env $(shell $(BIN)/python -c "from rndlib import cores; n = max(1, len(cores.usable()) // $(JOBS)); \
  print(*(f'{name}={count}' for name, count in cores.threads(n).items()))")
SIDE_BY_SIDE = --no-print-directory --keep-going --jobs

# Python keeps the modules that it compiles even where it is told not to, as in many images: hundreds of processes here
# import the same ones, and the set-up has compiled none.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: reproduce store calibrate seeds settings departures bench site test lint units units-1 units-2 tools commands verdicts notebooks newest environment environments

# Every notebook runs, whatever the one before it said; the exit code is 0 only if all ran and every claim holds.
reproduce: environment
	@status=0; \
	$(MAKE) $(SIDE_BY_SIDE) $(JOBS) $(addprefix run-,$(ORDER)) || status=1; \
	$(BIN)/rndlib report || status=1; \
	$(BIN)/rndlib verify || status=1; \
	exit $$status

# On a terminal, the progress bar of each has the line of its number.
run-%:
	@TQDM_POSITION=$(firstword $(subst _, ,$*)) $(SHARE) $(BIN)/rndlib run --profile $(PROFILE) $*

# The outputs of the last `make reproduce` become those stored in notebooks/.
store: environment
	$(BIN)/python ci/store.py $(NOTEBOOKS)

# Every notebook over 200 seeds at a small size, and over five others at the stored one. Hours; both resume.
calibrate: environment
	$(BIN)/python ci/repeats.py calibration

seeds: environment
	$(BIN)/python ci/repeats.py other_seeds

# Every notebook with other data, activations, depths and scales of the weights, at the small size: 23 minutes on two
# cores. The batch fails if a verdict does; docs/settings.md has the reasons.
settings: environments
	-$(BIN)/rndlib batch ci/other_settings.yaml
	$(BIN)/python ci/other_settings.py

# Networks trained in some seventy settings that leave the paper's limit, for notebook 08 and `rndlib.explain_setting`:
# half an hour on two cores; it resumes. DEPARTURES="width labels" measures those alone.
departures: environment
	$(BIN)/python ci/departures.py $(DEPARTURES)

# What things cost beside other ways to them: an hour on an idle machine. SECTIONS=kernels measures that part alone,
# WIDTHS=512,65536 networks of other widths. With QUICK=1, some three minutes, it says which ratios have fallen by more
# than a third since they were stored, by QUICK=1 KEEP=1.
bench: environment
	$(BIN)/python ci/bench.py $(if $(QUICK),--quick) $(if $(KEEP),--keep) $(if $(WIDTHS),--widths $(WIDTHS)) $(SECTIONS)

# What the stored notebooks show, with the reference and how-to pages, as a site in build/site.
site: environment
	$(BIN)/python ci/site_build.py

# Parts of the test run side by side, the longest first, and one more than JOBS: `commands` waits for half of its time,
# for clusters and for processes that it kills. What one prints is shown when it has ended, where make can do that.
SYNC = $(if $(filter output-sync,$(.FEATURES)),--output-sync)
test: environments
	@$(MAKE) $(SIDE_BY_SIDE) $(shell expr $(JOBS) + 1) $(SYNC) tools units notebooks newest lint

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo

# PyTorch and BLAS have one thread: theirs spin where they wait for each other, and beside another part PyTorch took five
# times as long.
units-1 units-2 commands verdicts newest: export OMP_NUM_THREADS = 1

# In two parts. Each compiled program takes several memory maps, of which Linux allows a process 65,530, and XLA crashes
# where it gets no more.
units: units-1 units-2

units-1:
	$(BIN)/pytest -m "not tools and not newest" tests/test_[!a-k]*.py

units-2:
	$(BIN)/pytest -m "not tools and not newest" tests/test_[a-k]*.py

# Of the command line, the packaging, the notebooks and the site; and of what makes verdicts wrong.
VERDICTS = mutations studies repeats
tools: commands verdicts

commands:
	$(BIN)/pytest -m "tools and not newest" $(VERDICTS:%=--ignore=tests/test_%.py)

verdicts:
	$(BIN)/pytest -m "tools and not newest" $(VERDICTS:%=tests/test_%.py)

# Each stored notebook runs again and must show what is stored. Then the numbers that they show rounded are compared in
# full.
notebooks: $(addprefix again-,$(ORDER))
	$(BIN)/python ci/moved.py results/.again

again-%:
	@rm -rf results/.again/$* && mkdir -p results/.again/$*
	$(SHARE) RNDLIB_OUTPUT=$(CURDIR)/results/.again/$* $(BIN)/pytest -q --nbval --nbval-current-env notebooks/$*.ipynb

# All that depends on JAX's version: its primitives as rndlib uses them, every solver and estimator once against its
# definition, and the examples of every public name. Kernels, laws, statistics and figures need none.
NEWEST = newest imports activations linearise factors stochastic descent exponential definitions docs
newest:
	.venv-newest/bin/pytest -m "not tools and not neural_tangents and not torch" $(NEWEST:%=tests/test_%.py)

environment:
	@ci/bootstrap .venv

environments:
	@ci/bootstrap .venv .venv-newest .venv-workflow
