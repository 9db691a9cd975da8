"""The checker for the annotations: beartype, with an int accepted for a float (PEP 484)."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
