"""Checks the whole project: style, types, tests. `python3 tests --help` says more."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[0] = os.path.join(ROOT, "scripts")  # in place of this folder: no test hides a module

import require_python

require_python.check()

import bootstrap

sys.exit(bootstrap.tests(sys.argv[1:]))
