"""check_layer: whether a layer keeps what every layer promises, on every backend that is here.

For authors of layers: one call in a test, `check_layer(lambda: Swirl(8), (4, 3))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from singa_core.conformance.layer_bench import MODES, Bench, LayerFault, LayerReport
from singa_core.conformance.layer_kernels import check_kernels
from singa_core.device import Device
from singa_core.errors import ArgumentError, PluginError
from singa_core.layer import Layer
from singa_core.random import initial_seed, manual_seed, restore_streams, stream_states
from singa_core.registry import registry

__all__ = ["LayerFault", "LayerReport", "check_layer"]


def check_layer(
    make: Callable[[], Layer],
    *inputs: Any,
    output: Any = None,
    devices: Sequence[str | Device] | None = None,
    seed: int = 0,
) -> LayerReport:
    """Check a layer on every installed backend; streams of random numbers are left as they were.

    - each kernel of a composite that it calls gives what the decomposition gives, in every float;
    - its output's shape, eager and from placeholders alone (`compile`), and equal first weights;
    - evaluation mode is a function: the same bits again, and no state is changed; both modes give
      the same shapes;
    - gradients of every parameter and float input are differences in float64, in both modes;
    - float32 agrees with float64, forward and backward, on every device, and devices agree with
      each other in both;
    - eager equals recorded, for outputs, gradients and state, over three steps in both modes, and
      without gradients;
    - saved, loaded into a new one and copied, it computes the same bits.

    Args:
        make: gives a new layer each time, such as `lambda: Linear(3)`.
        inputs: arrays, or shapes that are filled with numbers from -2 to 2.
        output: the shape that is expected; a tuple of shapes for several outputs.
        devices: by default one of each backend that can be used here.
        seed: of inputs and weights; choose another one if a kink of the layer is hit.

    Raises: LayerFault, which names the promise, the device and the numbers; what the layer raises.
    """
    report, hosts = LayerReport(""), list(_filled(inputs, seed))
    chosen = list(_devices(devices, report))
    if not chosen:
        hint = "pip install a backend"
        raise ArgumentError("check_layer", "a device to check on", "none", hint=hint)
    with _seeds_kept():
        benches = [Bench(make, hosts, device, seed, report) for device in chosen]
        for bench in benches:
            _check(bench, output)
            if bench is not benches[0]:
                bench.against(benches[0])
    report.devices = tuple(device.name for device in chosen)
    return report


def _filled(inputs: Sequence[Any], seed: int) -> Iterator[npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    for x in inputs:
        yield rng.uniform(-2, 2, x).astype(np.float32) if isinstance(x, tuple) else np.asarray(x)


def _check(bench: Bench, output: Any) -> None:
    check_kernels(bench)  # first: a wrong kernel is behind most of what the others would tell
    bench.modes()
    bench.shapes(output)
    bench.files()
    for mode in MODES:
        bench.against_float64(mode)
        bench.recorded(mode)


def _devices(named: Sequence[str | Device] | None, report: LayerReport) -> Iterator[Device]:
    for item in registry.names() if named is None else named:
        if isinstance(item, Device):
            yield item
            continue
        try:
            yield registry.resolve(item)
        except PluginError as error:
            if named is not None:
                raise
            report.skipped[item] = error.reason


@contextmanager
def _seeds_kept() -> Iterator[None]:
    seed, states = initial_seed(), stream_states()
    try:
        yield
    finally:
        manual_seed(seed)
        restore_streams(states)
