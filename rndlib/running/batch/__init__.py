"""Many runs in one go: a grid of notebooks, parameters and seeds, cell by cell. A grid is a YAML file such as

    profile: smoke             # the values to start from; paper where it is left out
    timeout: 600               # seconds that one cell may take; no limit where it is left out
    runs:
      - notebook: '02'         # its name, or the beginning of it
        set: {rtol: 0.1}       # one value for every cell
        product:               # every combination
          heads: [2, 4]
          width: [128, 256, 512]
        seeds: 3               # repeats 0, 1 and 2, of which none shares a seed; or a list of such numbers
      - notebook: '05'
        list:                  # these combinations
          - {sigma_w: 1.5, activation: silu}
          - {sigma_w: 2.0, activation: relu}

Every entry of `list` is combined with every combination of `product` and every seed; `profile` and `timeout` may stand
in a run as well. Nothing runs unless all of it can. What DIR has a result of already, with the same notebook,
parameters, library and versions, is not run again: call it again after an interruption.
"""

# `grid` reads what is asked for, `cell` is one run of it and what came of it, `pool` runs cells side by side,
# `progress` shows how far they are, `report` what they found. A cell is one call of `rndlib run --once`, which any
# scheduler can make as well.
