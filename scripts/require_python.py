"""Says in one line that this Python is too old; written so that an old Python can run it."""

import sys

MINIMUM = (3, 11)  # tests/test_bootstrap.py holds it against requires-python


def complaint(version):
    """Return the line to print on a Python of this version, or None if it will do."""
    if tuple(version[:2]) >= MINIMUM:
        return None
    found = ".".join(str(part) for part in version[:3])
    return "singa-core: needs Python >= %d.%d, this is %s" % (MINIMUM + (found,))


def check():
    """Leave with that line on a Python that is too old."""
    line = complaint(sys.version_info)
    if line:
        sys.exit(line)
