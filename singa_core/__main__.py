"""`python -m singa_core`: the command `singa`."""

import sys

from singa_core.cli import main

sys.exit(main())
