"""What `ci/bench.py` measures: a section a module, each with a table of its own."""
