"""What `ci/bench.py` measures: one section per module, each with its own table."""
