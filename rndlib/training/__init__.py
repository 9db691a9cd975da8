"""How networks are drawn and trained: initial weights, solvers, and the backends that carry them out."""
