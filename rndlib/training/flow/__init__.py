"""Gradient flow by an exponential integrator: its steps, their accuracy and their precision."""
