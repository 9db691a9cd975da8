"""How networks are drawn and trained: initial weights, solvers, and the backends that carry them out.

A body is one of the independent networks of a fit, with all its heads.
"""
