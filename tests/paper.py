"""A device of the C language on which nothing runs, to look at the calls of kernels."""

from singa_core.device import Capabilities
from singa_core.kernels.c.dialect import Target


class Paper(Target):
    """Its launches are lists of calls."""

    def __init__(self, family="cpu", *, parameters=1024, **sizes):
        super().__init__(Capabilities(family=family, parameters=parameters), **sizes)

    def launch(self, calls, operands):
        return list(calls)
