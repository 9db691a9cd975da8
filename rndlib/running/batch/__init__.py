"""Run a grid of notebooks, parameters and seeds with Snakemake. A grid is a YAML file such as

    profile: smoke             # the values to start from; paper where it is left out
    timeout: 600               # seconds that one cell may take; no limit where it is left out
    runs:
      - notebook: 02           # its name, or the beginning of it
        set: {rtol: 0.1}       # one value for every cell
        product:               # every combination
          heads: [2, 4]
          width: [128, 256, 512]
        seeds: 3               # repeats 0, 1 and 2, which share no seed; or a list of such numbers
      - notebook: 05
        list:                  # these combinations
          - {sigma_w: 1.5, activation: silu}
          - {sigma_w: 2.0, activation: relu}

Every entry of `list` is combined with every combination of `product` and every seed; `profile` and `timeout` may stand
in a run as well. Nothing runs unless all of the grid can. A cell whose result is in DIR already, from the same
notebook, parameters, library and versions, does not run again: after an interruption, give the same command again.
"""

# `grid` reads the cells, `engine` has Snakemake run those without a result, `cell` reads what came of each, `report`
# writes it down. A cell is one call of `rndlib run --once`, which any other scheduler can make as well.
