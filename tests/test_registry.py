"""The table of operations against what else knows of them: docs, kernels, the public names."""

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from singa_core import ops
from singa_core.conformance.oracles import ORACLES
from singa_core.dtype import BY_CODE
from singa_core.errors import ArgumentError
from singa_core.kernels import ALL_SIGNATURES, table
from singa_core.kernels.array import array as shared
from singa_core.kernels.c import c
from singa_core.operation import Operation
from singa_core.optable import FUNCTIONS, OPS, function, register
from singa_core.registry import registry
from singa_core.resolve import casts_for
from singa_core.spec import Spec

NAMES = sorted(OPS)
FAMILIES = sorted(
    path.stem
    for path in Path(ops.__file__).parent.glob("*.py")
    if path.stem not in ("__init__", "base", "conv_geometry")  # helpers of families
)


# -- every op ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_an_op_has_samples_and_an_oracle(name):
    op = OPS[name]
    assert len(op.samples) >= 3, (
        "three samples at least: a common one, a broadcast or axis, an edge"
    )
    assert name in ORACLES
    for sample in op.samples:
        assert op.variadic or len(sample.inputs) == len(op.inputs)
        op.pack(dict(sample.attrs))  # raises for an attribute that is not there


@pytest.mark.parametrize("name", NAMES)
def test_something_empty_is_among_the_samples(name):
    """No elements in, or no elements out."""
    samples = OPS[name].samples
    inputs = any(0 in i.shape for s in samples for i in s.inputs)
    sizes = [s.attrs.get(key) for s in samples for key in ("shape", "size", "n")]
    outputs = any(0 in size if isinstance(size, tuple) else size == 0 for size in sizes)
    assert inputs or outputs or name in NO_EMPTY


NO_EMPTY = ("argmax", "argmin")  # of nothing there is no largest


@pytest.mark.parametrize("name", NAMES)
def test_an_op_says_its_shapes_and_its_source(name):
    docs = inspect.getdoc(type(OPS[name])) or ""
    assert "Shapes:" in docs
    assert "Source:" in docs or re.search(r"\w.* = .*", docs)
    assert docs.splitlines()[0].strip().endswith((".", ":")) or "\n" in docs


@pytest.mark.parametrize("name", NAMES)
def test_an_op_is_a_primitive_a_composite_or_a_view(name):
    op = OPS[name]
    kinds = [op.is_composite, op.is_view, name in ops.PRIMITIVES]
    assert sum(kinds) == 1
    for kept in op.keeps:
        assert kept in op.inputs or re.fullmatch(r"y\d*", kept)


@pytest.mark.parametrize("name", NAMES)
def test_backward_takes_what_infer_and_keeps_say(name):
    """`backward(self, grad..., *kept, needs, **attrs)`, with every attribute by name."""
    op = OPS[name]
    if not op.has_backward:
        return
    parameters = inspect.signature(type(op).backward).parameters.values()
    keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    assert "needs" in keywords
    assert open_ended or set(op.attributes) <= keywords
    places = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        assert len(places) >= 1 + len(op.keeps)


# -- primitives and kernels -------------------------------------------------------------------------


def test_the_primitives_are_published_and_counted():
    assert len(ops.PRIMITIVES) == 54
    assert ops.PRIMITIVES == tuple(sorted(ops.PRIMITIVES))


@pytest.mark.parametrize("name", ops.PRIMITIVES)
def test_both_shared_languages_have_kernels_of_a_primitive_for_the_same_types(name):
    told, other = (set(language.signatures(name)) for language in (shared, c))
    assert told
    assert other == {ALL_SIGNATURES} or told <= other


@pytest.mark.parametrize("language", [shared, c], ids=["array", "c"])
def test_the_shared_languages_have_kernels_of_known_ops_only(language):
    assert set(language.ops()) <= set(OPS)


def languages():
    """Every language that some backend here speaks."""
    names = {"array", "c"}
    for backend in ("cpu_numpy",):
        names.update(registry.resolve(backend).languages)
    return sorted(names)


@pytest.mark.parametrize("language", languages())
def test_signatures_of_kernels_are_what_infer_gives(language):
    """A kernel for types that the op refuses, or gives another type for, would never be called."""
    checked = 0
    for kernel in table(language):
        if kernel.op not in OPS or kernel.signature == ALL_SIGNATURES:
            continue
        op = OPS[kernel.op]
        left, right = ([c for c in side.split(",") if c] for side in kernel.signature.split("->"))
        for sample in op.samples:
            codes = (
                left if "*" not in kernel.signature else [left[0].rstrip("*")] * len(sample.inputs)
            )
            if len(codes) == len(sample.inputs):
                break
        else:
            pytest.fail(f"{kernel.op}: no sample has the inputs of {kernel.signature}")
        specs = tuple(Spec(i.shape, BY_CODE[c]) for i, c in zip(sample.inputs, codes, strict=True))
        attrs = dict(sample.attrs)
        if "dtype" in op.attributes:
            attrs["dtype"] = BY_CODE[right[0]]
        assert not op.promotes or casts_for(op, specs) is None, (
            f"{kernel.op} {kernel.signature}: cast before"
        )
        options = op.settle(*specs, **dict(zip(op.attributes, op.pack(attrs), strict=True)))
        made = op.infer(*specs, **options)
        made = made if isinstance(made, tuple) else (made,)
        assert [s.dtype.code for s in made] == right, f"{kernel.op} {kernel.signature}"
        checked += 1
    assert checked


# -- names ------------------------------------------------------------------------------------------


def published(family):
    return importlib.import_module(f"singa_core.ops.{family}").__all__


def test_every_family_is_re_exported():
    source = Path(ops.__file__).read_text(encoding="utf-8")
    for family in FAMILIES:
        assert f"from singa_core.ops.{family} import *" in source, family
        for name in published(family):
            assert hasattr(ops, name), f"{family}.{name}"


def test_a_public_name_means_one_thing():
    counted = Counter(name for family in FAMILIES for name in published(family))
    assert [name for name, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("name", NAMES)
def test_an_op_is_public_under_its_name(name):
    assert getattr(ops, name) is OPS[name]


def test_functions_are_public_and_documented():
    for name, plain in FUNCTIONS.items():
        assert inspect.getdoc(plain), name
        if plain.__module__.startswith("singa_core.ops."):
            assert getattr(ops, name) is plain, name


def test_a_name_is_taken_once():
    class Other(Operation):
        name = "add"

        def infer(self, x):
            return x

    with pytest.raises(
        ArgumentError, match=r"operation add: needs a name of its own for each operation"
    ):
        register(Other.__new__(Other))

    def flip(x):
        return x

    flip.__module__ = "elsewhere"
    with pytest.raises(ArgumentError, match=r"function flip: needs a name of its own .*elsewhere"):
        function(flip)
    assert OPS["add"] is ops.add
    assert FUNCTIONS["flip"] is ops.flip
