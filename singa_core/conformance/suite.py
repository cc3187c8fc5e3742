"""All tests of the kit: `pytest -p singa_core.conformance.plugin --pyargs <this module>`.

A backend's own repository has one file with `from singa_core.conformance.suite import *`. Names of
tests are unique across groups, since here they meet.
"""

from singa_core.conformance.groups.autograd import *  # noqa: F403
from singa_core.conformance.groups.device import *  # noqa: F403
from singa_core.conformance.groups.errors import *  # noqa: F403
from singa_core.conformance.groups.graph import *  # noqa: F403
from singa_core.conformance.groups.manifest import *  # noqa: F403
from singa_core.conformance.groups.models import *  # noqa: F403
from singa_core.conformance.groups.ops_composite import *  # noqa: F403
from singa_core.conformance.groups.ops_primitive import *  # noqa: F403
from singa_core.conformance.groups.random import *  # noqa: F403
