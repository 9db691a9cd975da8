# `make reproduce` runs the paper's notebooks, `make test` checks everything. Both set up what they need first.
# PYTHON=python3.12 chooses the interpreter of the environments, PROFILE=smoke small sizes for a quick look. JOBS
# notebooks run at a time, the longest first; 00 takes most memory, and runs beside small ones.
PROFILE ?= paper
JOBS ?= 2
NOTEBOOKS = $(sort $(basename $(notdir $(wildcard notebooks/*.ipynb))))
BIN = .venv/bin
LONGEST = $(foreach number,05 06 03 02 00 04,$(filter $(number)_%,$(NOTEBOOKS)))
SEVERAL = $(BIN)/python ci/several.py --jobs $(JOBS) $(LONGEST) $(filter-out $(LONGEST),$(NOTEBOOKS))

# Python keeps the modules that it compiles even where it is told not to, as in many images: hundreds of processes here
# import the same ones, and the set-up has compiled none.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: reproduce store calibrate seeds bench site test lint units tools notebooks newest environment environments

# Every notebook runs, whatever the one before it said; the exit code is 0 only if all ran and every claim holds.
reproduce: environment
	@status=0; \
	$(SEVERAL) -- $(BIN)/rndlib run --profile $(PROFILE) || status=1; \
	$(BIN)/rndlib report || status=1; \
	$(BIN)/rndlib verify || status=1; \
	exit $$status

# The outputs of the last `make reproduce` become those stored in notebooks/.
store: environment
	$(BIN)/python ci/store.py $(NOTEBOOKS)

# Every notebook over 200 seeds at a small size, and over five others at the stored one. Hours; both resume.
calibrate: environment
	$(BIN)/python ci/repeats.py calibration

seeds: environment
	$(BIN)/python ci/repeats.py other_seeds

# What things cost beside other ways to them: half an hour on an idle machine, under three minutes with QUICK=1.
# SECTIONS=kernels measures that part alone, WIDTHS=512,65536 networks of other widths. It resumes.
bench: environment
	$(BIN)/python ci/bench.py $(if $(QUICK),--quick) $(if $(WIDTHS),--widths $(WIDTHS)) $(SECTIONS)

# What the stored notebooks show, with the reference and how-to pages, as a site in build/site.
site: environment
	$(BIN)/python ci/site_build.py

# Two parts at a time, as each leaves cores idle; what a part says is shown when it has ended, where make can do that.
# The notebooks, which fill the cores by themselves, last.
PARTS = tools units newest lint notebooks
test: environments
	@echo "$(PARTS): two at a time"
	@$(MAKE) --no-print-directory --jobs 2 --keep-going $(if $(filter output-sync,$(.FEATURES)),--output-sync) $(PARTS)

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo

# PyTorch and BLAS have one thread: theirs spin where they wait for each other, and beside another part PyTorch took five
# times as long.
units tools newest: export OMP_NUM_THREADS = 1

units:
	$(BIN)/pytest -m "not tools and not newest"

# Of the command line, the packaging, the notebooks and the site.
tools:
	$(BIN)/pytest -m "tools and not newest"

notebooks:
	@rm -rf results/.again
	$(SEVERAL) -- sh -c 'mkdir -p results/.again/$$0 && RNDLIB_OUTPUT=$(CURDIR)/results/.again/$$0 \
	  $(BIN)/pytest --nbval --nbval-current-env notebooks/$$0.ipynb'
	$(BIN)/python ci/moved.py results/.again

# Left out are tests that need NumPy and SciPy alone, of which both environments have the same, those of what lies above
# the estimators, and sweeps.
newest:
	.venv-newest/bin/pytest -m "not tools and not neural_tangents and not torch and not sweep" \
	  $(patsubst %,--ignore-glob='tests/test_%.py',datasets dynamics figures* interpol* kernels laws practice* sklearn statistics*)

environment:
	@ci/bootstrap .venv

environments:
	@ci/bootstrap .venv .venv-newest .venv-workflow
