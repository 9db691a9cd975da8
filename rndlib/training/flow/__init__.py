"""Gradient flow by an exponential integrator: how it is stepped, how accurate a step is, and in which precision."""
