"""`python -m rndlib`: the command line."""

import sys

from rndlib.cli import main

sys.exit(main())
