"""What `ci/bench.py` measures: one section per module, each a title, a note and its cases."""
