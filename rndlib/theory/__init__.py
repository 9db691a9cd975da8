"""What is exact: the kernels of infinitely wide networks, and the laws of the paper's theorems.

Nothing here trains a network or draws a random number.
"""
