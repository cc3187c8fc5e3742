"""All tests of the kit: `pytest -p singa_core.conformance.plugin --pyargs <this module>`.

A backend's own repository has one file with `from singa_core.conformance.suite import *`.
"""

from singa_core.conformance.groups.device import *  # noqa: F403
from singa_core.conformance.groups.ops_primitive import *  # noqa: F403
