"""Exact results: the kernels of infinitely wide networks, and the laws of the paper's theorems. Nothing is random."""
