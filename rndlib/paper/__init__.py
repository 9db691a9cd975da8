"""The executable edition of the paper: what the notebooks are made of. The library never imports it."""
