"""Every op, every sample, every dtype, every device: values, gradients, layouts, graphs.

One test is one op on one device; a failure names the sample.
"""

import pytest

from house import counts
from singa_core import kernels
from singa_core.autograd import gradients
from singa_core.conformance.cases import (
    NAMES,
    SETS,
    cases,
    layouts,
    same_bits,
    told,
    without_kernels,
)
from singa_core.conformance.gradcheck import check_gradients
from singa_core.conformance.oracles import ORACLES
from singa_core.conformance.tolerances import compare
from singa_core.engine import graph
from singa_core.errors import DTypeError
from singa_core.mode import no_grad
from singa_core.optable import OPS
from singa_core.resolve import casts_for
from singa_core.spec import Spec
from singa_core.tensor import tensor

pytestmark = pytest.mark.parametrize("name", NAMES)
QUICK = ("float32", "float64")
CUT = frozenset({"detach"})  # their gradient is not their derivative, on purpose


def hosts_of(tensors):
    return [t.numpy() for t in tensors]


def inferred(case):
    """The specs that the op promises, from specs alone."""
    op = case.op
    specs = [Spec(h.shape, h.dtype) for h in case.hosts()]
    casts = (casts_for(op, tuple(specs)) if op.promotes else None) or [None] * len(specs)
    specs = [s.with_dtype(d) if d else s for s, d in zip(specs, casts, strict=True)]
    options = op.settle(
        *specs, **dict(zip(op.attributes, op.pack(dict(case.sample.attrs)), strict=True))
    )
    made = op.infer(*specs, **options)
    return made if isinstance(made, tuple) else (made,)


def test_an_op_has_samples_and_an_oracle(name):
    assert OPS[name].samples, "no samples"
    assert name in ORACLES, "no oracle in singa_core.conformance.oracles"


def test_values_are_the_oracle_s_and_specs_are_the_inferred_ones(name, device):
    for case in cases(name, device):
        for variant in (0, 1):  # the second meets what the first has left in caches
            with told(case):
                compare_with_oracle(case, device, variant)
        counts.sample_ran(name, case.number, case.dtype, device.name)


def compare_with_oracle(case, device, variant):
    hosts, tensors = case.hosts(variant), case.tensors(device, variant)
    outs = case.call(device, *tensors)
    assert tuple(y.spec for y in outs) == inferred(case)
    assert all(y.device is device for y in outs)
    expected = ORACLES[case.name](*hosts, **case.sample.attrs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    terms = max([h.size for h in hosts], default=1)
    for got, reference in zip(hosts_of(outs), expected, strict=True):
        compare(case.name, got, reference, terms)
    for x, host in zip(tensors, hosts, strict=True):
        assert same_bits(x.numpy(), host), "an input was changed"


def test_an_undeclared_dtype_is_refused(name, device):
    """What a capability denies is a typed error, not a wrong number."""
    declared = {d.name for d in device.capabilities.dtypes}
    first = OPS[name].samples[0]
    if any(i.dtype in SETS for i in first.inputs):
        for dtype in set(SETS["float"]) - declared:
            inputs = [tensor(h, device=device) for h in first.draw(name, 0, dtype)]
            with pytest.raises(DTypeError, match=rf"needs a dtype of {device} \(.*\), got {dtype}"):
                OPS[name](*inputs, **first.attrs)
            counts.counted("undeclared dtypes refused")


def test_layouts_do_not_matter(name, device):
    for case in cases(name, device, QUICK):
        hosts = case.hosts()
        with told(case):
            expected = hosts_of(case.call(device, *case.tensors(device)))
            for place in range(len(hosts)):
                for layout, strided in layouts(hosts[place], device):
                    with told(f"input {place} {layout}"):
                        assert same_bits(strided.numpy(), hosts[place]), "the test's own layout"
                        tensors = case.tensors(device)
                        tensors[place] = strided
                        got = hosts_of(case.call(device, *tensors))
                        terms = max(h.size for h in hosts)
                        for y, reference in zip(got, expected, strict=True):
                            compare(name, y, reference, terms)
                        assert same_bits(strided.numpy(), hosts[place]), "the input was changed"
                        counts.counted("layouts of inputs")


def test_a_replay_gives_the_bits_of_eager(name, device):
    for case in cases(name, device):
        with told(case):
            recorded = graph(lambda *xs, case=case: case.call(device, *xs), device=device)
            variants = (0, 1, 2) if case.sample.inputs else (0, 0, 0)
            eager = [hosts_of(case.call(device, *case.tensors(device, v))) for v in variants]
            replayed = [recorded(*case.tensors(device, v)) for v in variants]  # held, all three
            assert recorded.records == 1
            for variant, (wanted, got) in enumerate(zip(eager, replayed, strict=True)):
                for a, b in zip(wanted, got, strict=True):
                    with told(f"replay {variant}"):
                        assert same_bits(a, b.numpy()), f"\neager  {a}\nreplay {b.numpy()}"
                        counts.bitwise_compared()


def test_a_composite_is_its_decomposition(name, device):
    native = any(kernels.table(language).signatures(name) for language in device.languages)
    if not (native and OPS[name].is_composite):
        return
    for case in cases(name, device):
        with told(case), no_grad():
            tensors = case.tensors(device)
            native = hosts_of(case.call(device, *tensors))
            with without_kernels(frozenset({name}), device):
                composed = hosts_of(case.call(device, *tensors))
            terms = max([h.size for h in case.hosts()], default=1)
            for y, reference in zip(native, composed, strict=True):
                compare(name, y, reference, terms)
            counts.counted("composites, native against decomposed")


def differentiable(case):
    """Which inputs of a sample get their gradient checked."""
    return [
        i
        for i, x in enumerate(case.sample.inputs)
        if x.grad and (x.dtype in SETS or x.dtype == case.dtype) and case.sample.level == "full"
    ]


def test_gradients_are_derivatives(name, device):
    for case in cases(name, device, ("float64",)):
        wanted = differentiable(case)
        if case.dtype != "float64" or not wanted or name in CUT:
            continue
        with told(case):
            order = check_gradients(
                lambda *xs, case=case: case.call(device, *xs), device, case.hosts(), wanted=wanted
            )
            for n in range(1, order + 1):
                counts.gradient_checked(n)


def test_a_recorded_gradient_has_the_bits_of_an_eager_one(name, device):
    for case in cases(name, device, QUICK):
        wanted = differentiable(case)
        if case.dtype not in QUICK or not wanted:
            continue
        with told(case):
            compare_recorded_gradient(case, device, wanted)


def compare_recorded_gradient(case, device, wanted):
    def step(*inputs):
        outs = [y for y in case.call(device, *inputs) if y.requires_grad]
        if not outs:
            return ()
        seeds = [y.detach() * 0.5 + 1.0 for y in outs]
        return gradients(outs, [inputs[i] for i in wanted], seeds, allow_unused=True)

    def fresh(variant):
        tensors = case.tensors(device, variant)
        for i in wanted:
            tensors[i].requires_grad = True
        return tensors

    recorded = graph(step, device=device)
    eager = [step(*fresh(v)) for v in (0, 1)]
    replayed = [recorded(*fresh(v)) for v in (0, 1)]
    for ours, theirs in zip(eager, replayed, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert same_bits(a.numpy(), b.numpy()), f"\neager  {a}\nreplay {b}"
                counts.bitwise_compared()


def test_something_empty_is_among_the_samples(name):
    """No elements in, or no elements out: both devices, all the tests above."""
    samples = OPS[name].samples
    inputs = any(0 in i.shape for s in samples for i in s.inputs)
    sizes = [s.attrs.get(key) for s in samples for key in ("shape", "size", "n")]
    outputs = any(0 in size if isinstance(size, tuple) else size == 0 for size in sizes)
    assert inputs or outputs or name in NO_EMPTY, "no empty sample"


NO_EMPTY: frozenset[str] = frozenset({"argmax", "argmin"})  # of nothing there is no largest
