"""Notebooks as programs: the command line, parameters, execution, results, reports and grids of runs."""
