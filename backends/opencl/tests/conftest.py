"""Kernels of both families on whatever device there is, without the engine around them."""

from dataclasses import replace

import numpy as np
import pytest

from conftest import open_device
from paper import Paper
from singa_core.optable import OPS
from singa_core.spec import Spec, make_form


def prepared(target, table, op, forms, attrs):
    """The specs of `op`'s outputs, and what its kernel in `table` makes of these inputs."""
    known = OPS[op]
    specs = [Spec(form.shape, form.dtype.name) for form in forms]
    packed = known.pack(attrs)
    attrs = known.settle(*specs, **dict(zip(known.attributes, packed, strict=True)))
    outs = known.infer(*specs, **attrs)
    outs = list(outs) if isinstance(outs, tuple) else [outs]
    kernel = table.find(op, [s.dtype for s in specs], [s.dtype for s in outs])
    assert kernel is not None, f"no kernel of {op} for {specs}"
    assert kernel.strides or list(forms) == specs
    return outs, kernel.prepare(target, forms, outs, **attrs)


class Planner(Paper):
    """Tells what kernels would launch."""

    def plan(self, table, op, forms, **attrs):
        """(calls, bytes of workspace) of `op`'s kernel; None if it declines."""
        _, found = prepared(self, table, op, forms, attrs)
        return found if found is None or isinstance(found, tuple) else (found, 0)


class Runner:
    """Runs kernels of one family: inputs with their strides, outputs and workspace full of NaN."""

    def __init__(self, device, family):
        program = pytest.importorskip("singa_opencl.program")
        self.device, self.family = device, family
        self.target = program.Compiler(device.native, replace(device.capabilities, family=family))
        self.target.open(device.context, device.queue, device.faults)

    def upload(self, array):
        """The handle of an array that is any view of a packed one."""
        base = array
        while base.base is not None:
            base = base.base
        start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        buffer = self.device.alloc(base.nbytes)
        self.device.upload(buffer, 0, np.ascontiguousarray(base).reshape(-1).view(np.uint8))
        return buffer, start

    def poisoned(self, nbytes):
        """A buffer whose floats are all NaN."""
        buffer = self.device.alloc(nbytes)
        self.device.upload(buffer, 0, np.full(nbytes, 255, np.uint8))
        return buffer, 0

    def __call__(self, table, op, arrays, **attrs):
        """The results of `op`'s kernel in `table` as arrays; None if it declines."""
        forms = [
            make_form(Spec(a.shape, a.dtype.name), tuple(step // a.itemsize for step in a.strides))
            for a in arrays
        ]
        outs, found = prepared(self.target, table, op, forms, attrs)
        if found is None:
            return None
        launch, nbytes = found if isinstance(found, tuple) else (found, None)
        results = [self.poisoned(spec.nbytes) for spec in outs]
        workspace = [] if nbytes is None else [self.poisoned(nbytes)]
        launch(*map(self.upload, arrays), *results, *workspace)
        made = []
        for (buffer, _), spec in zip(results, outs, strict=True):
            host = np.empty(spec.shape, spec.dtype.numpy)
            self.device.download(buffer, 0, host.reshape(-1).view(np.uint8))
            made.append(host)
        return made


@pytest.fixture
def paper():
    """A function that makes a device on which nothing runs, with these attributes of a Target."""
    return Planner


@pytest.fixture(scope="session")
def runners():
    """A Runner for each family, made on first use."""
    made = {}

    def get(family):
        if family not in made:
            device = open_device("opencl")
            device.open()
            made[family] = Runner(device, family)
        return made[family]

    return get


@pytest.fixture(params=["cpu", "gpu"])
def run(request, runners):
    """Both families in turn."""
    return runners(request.param)


@pytest.fixture
def cpu(runners):
    """The family of devices with few, wide work items."""
    return runners("cpu")


@pytest.fixture(scope="session")
def opened():
    """A device for each family: the first there is, and the same one with the other kernels."""
    made = {}

    def get(family):
        first = open_device("opencl")
        first.open()
        if family == first.capabilities.family:
            return first
        if family not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SINGA_OPENCL_FAMILY", family)
                made[family] = type(first)(0, first.native)
            made[family].open()
        return made[family]

    return get


@pytest.fixture(params=["cpu", "gpu"])
def either(request, opened):
    """A device of each family in turn, as it was afterwards."""
    device = opened(request.param)
    known = device.capabilities
    yield device
    device.capabilities = known
