"""Runs an example in the project's own environment: `python3 examples --help`."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[0] = os.path.join(ROOT, "scripts")  # in place of this folder: no example hides a module

import require_python

require_python.check()

import bootstrap

sys.exit(bootstrap.examples(sys.argv[1:]))
