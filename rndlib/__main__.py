"""`python -m rndlib`: the command line."""

import sys

from rndlib.running.cli import main

sys.exit(main())
