"""The tests of the kit, one module for each group, run through `singa_core.conformance.suite`."""
