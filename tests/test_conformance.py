"""The kit, on every device of this session: `singa_core.conformance` has the tests."""

from singa_core.conformance.suite import *  # noqa: F403
