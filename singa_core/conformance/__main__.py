"""`python -m singa_core.conformance`."""

import sys

from singa_core.conformance.runner import main

raise SystemExit(main(sys.argv[1:]))
