"""Saved models: what is in the file, what comes back, and what is told where it does not fit."""

import json
import subprocess
import sys
import warnings
import zipfile

import ml_dtypes
import numpy as np
import pytest
import safetensors

from nets import Net, Scale, batch, contents, made
from singa_core import (
    Counter,
    Layer,
    Model,
    Parameter,
    Placeholder,
    State,
    ops,
    opt,
    random,
    tensor,
)
from singa_core.errors import ArgumentError, RecordingError, StateLost
from singa_core.io import container
from singa_core.io.checkpoint import CheckpointWarning, Mismatch, load, pack, save, unpack
from singa_core.io.names import aliases, canonical
from singa_core.layers import Linear, Sequential

ADAM = lambda: opt.Adam(0.01)  # noqa: E731


def bits(cells):
    return {n: (c.dtype.name, c.shape, c.numpy().tobytes()) for n, c in cells.items()}


def slots(model):
    states = model.optimizer.get_states(model.get_params())
    return {k: v if isinstance(v, int) else v.numpy().tobytes() for k, v in states.items()}


def streams():
    return {name: stream.state() for name, stream in random.STREAMS.items()}


def trained(device, steps=3, **options):
    model = made(device, ADAM(), p=0.4, **options)
    for i in range(steps):
        model.train_one_batch(*batch(device, seed=i))
    return model


def tensors_of(path):
    """What another program would find in the file."""
    with zipfile.ZipFile(path) as archive:
        found = safetensors.deserialize(archive.read("state.safetensors"))
    return {name: (about["dtype"], about["shape"]) for name, about in found}


def rewritten(path, change):
    """The file again, with other tensors or another manifest, all sums right."""
    manifest, members = container.read(path)
    arrays = unpack(path, members["state.safetensors"])
    change(arrays, manifest)
    data = pack({name: tensor(array, device="cpu_numpy") for name, array in arrays.items()})
    container.write(path, manifest, {"state.safetensors": data})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.ckpt"


# -- there and back -----------------------------------------------------------------------------------


class Everything(Layer):
    """A state of each kind."""

    def __init__(self, dtypes, fill):
        self.cells = [State((2, 3), fill, dtype=dtype) for dtype in dtypes]
        self.number, self.empty = State((), fill), State((0, 3), fill)
        self.nested = {"a": (Parameter((1,), fill), [Parameter((1, 1, 2), fill, dtype="float64")])}

    def forward(self):
        return None


DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


def test_every_dtype_and_shape_comes_back(device, path):
    dtypes = DTYPES + (["bfloat16"] if device.name != "far" else [])
    one, two = Everything(dtypes, "ones"), Everything(dtypes, "zeros")
    for layer in (one, two):
        layer.to(device)
        layer()
    rng = np.random.default_rng(0)
    for cell in one.get_states().values():
        host = rng.normal(size=cell.shape) * 10
        with np.errstate(all="ignore"):
            cell.assign(tensor(np.asarray(host).astype(cell.dtype.numpy), device=device))
    assert bits(one.get_states()) != bits(two.get_states())
    save(one, path)
    report = load(two, path, strict=True)
    assert report.exact
    assert bits(one.get_states()) == bits(two.get_states())
    assert tensors_of(path)["empty"] == ("F32", [0, 3])
    assert tensors_of(path)["nested.a.1.0"] == ("F64", [1, 1, 2])


def test_bfloat16_is_kept():
    values = np.array([1.0, -2.5, 3e38, np.nan, np.inf], ml_dtypes.bfloat16)
    data = pack({"x": tensor(values, device="cpu_numpy")})
    ((_, about),) = safetensors.deserialize(data)
    assert about["dtype"] == "BF16"
    back = unpack("", data)["x"]
    assert (back.dtype, back.tobytes()) == (values.dtype, values.tobytes())


@pytest.mark.parametrize("shape", [(2, 3), (4, 1, 5), (3, 4, 5)])
def test_memory_order_does_not_scramble_the_file(device, shape):
    """The writer of safetensors takes memory as it lies."""
    host = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    views = {
        "turned": (tensor(host.T, device=device).T, host),
        "fortran": (tensor(np.asfortranarray(host), device=device), host),
        "flipped": (tensor(host, device=device)[::-1, :, ...], host[::-1]),
        "cut": (tensor(host, device=device)[:, :1], host[:, :1]),
        "number": (tensor(np.float32(3), device=device), np.float32(3)),
    }
    back = unpack("", pack({name: view for name, (view, _) in views.items()}))
    for name, (_, wanted) in views.items():
        np.testing.assert_array_equal(back[name], wanted)
        assert back[name].shape == wanted.shape


@pytest.mark.parametrize("use_graph", [False, True])
def test_training_goes_on_with_the_same_bits(device, path, use_graph):
    one = trained(device, use_graph=use_graph)
    save(one, path, {"epoch": 1})
    before, after = streams(), []
    for seed in (7, 8):
        after.append(one.train_one_batch(*batch(device, seed=seed))[1].item())
    random.manual_seed(99)
    two = Net(ADAM(), p=0.4).to(device)
    two.compile([batch(device)[0]], use_graph=use_graph)
    two.train_one_batch(*batch(device, seed=50))  # graphs, slots and steps are there already
    two.train_one_batch(*batch(device, seed=51))
    report = load(two, path, include_state=True, strict=True)
    assert (report.state, streams()) == ({"epoch": 1}, before)
    assert two.optimizer.steps.value == 3
    assert [two.train_one_batch(*batch(device, seed=s))[1].item() for s in (7, 8)] == after
    assert bits(one.get_states()) == bits(two.get_states())
    assert slots(one) == slots(two)


@pytest.mark.parametrize("include_state", [False, True])
def test_loading_comes_before_compile_as_well(device, path, include_state):
    one = trained(device)
    save(one, path)
    after = one.train_one_batch(*batch(device, seed=7))[1].item()
    two = Net(ADAM(), p=0.4).to(device)
    load(two, path, include_state=include_state, strict=True)
    assert two.body.steps[0].weight.shape == (4, 8)
    assert two.body.steps[0].weight.device is device
    before = bits(two.get_states())
    two.compile([Placeholder((6, 4), device=device)])
    assert bits(two.get_states()) == before
    got = two.train_one_batch(*batch(device, seed=7))[1].item()
    assert (got == after) is include_state  # without it, dropout draws from where the stream is


@pytest.mark.parametrize("include_state", [False, True])
@pytest.mark.parametrize("moved", [False, True])
def test_compile_brings_what_was_loaded_to_its_device(
    device, other_device, path, include_state, moved
):
    one = trained(device)
    save(one, path)
    after = one.train_one_batch(*batch(device, seed=7))[1].item()
    two = Net(ADAM(), p=0.4)
    if moved:
        two.to(other_device)
    load(two, path, include_state=include_state, strict=True)
    before = bits(two.get_states())
    two.compile([Placeholder((6, 4), device=device)])
    assert {cell.device for cell in two.get_states().values()} == {device}
    assert bits(two.get_states()) == before
    got = two.train_one_batch(*batch(device, seed=7))[1].item()
    assert (got == after) is include_state
    slots = two.optimizer.get_states(two.get_params()).values()
    assert {v.device for v in slots if not isinstance(v, int)} == {device}


def test_without_include_state_only_parameters_and_states_come(device, path):
    save(trained(device), path)
    two = trained(device, steps=1)
    kept, drawn = slots(two), streams()
    load(two, path)
    assert (slots(two), streams()) == (kept, drawn)


def test_what_was_lost_can_be_loaded_again(far_device, path):
    model = trained(far_device)
    before = bits(model.get_states())
    save(model, path)
    far_device.fail_at(30)

    def steps():
        for i in range(3):
            model.train_one_batch(*batch(far_device, seed=i))[1].item()

    pytest.raises((StateLost, RuntimeError), steps)
    far_device.recover()
    with pytest.raises(StateLost):
        save(model, path)
    load(model, path, include_state=True, strict=True)
    assert bits(model.get_states()) == before


# -- the file -----------------------------------------------------------------------------------------


def test_the_file_is_what_it_is_said_to_be(device, path):
    model = trained(device)
    save(model, path, {"note": "x"})
    names = list(model.get_states())
    moments = [f"optimizers.optimizer.{slot}.{name}" for slot in "mv" for name in names]
    assert set(tensors_of(path)) == {*names, *moments}
    assert tensors_of(path)["body.steps.0.weight"] == ("F32", [4, 8])
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["manifest.json", "state.safetensors"]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        manifest = json.loads(archive.read("manifest.json"))
        (member,) = manifest["members"].values()
        assert member["bytes"] == archive.getinfo("state.safetensors").file_size
    assert (manifest["format"], manifest["version"]) == (1, container.library_version())
    assert manifest["optimizers"]["optimizer"]["numbers"] == {"steps": 3}
    assert manifest["optimizers"]["optimizer"]["type"] == "Adam"
    assert manifest["random"]["train"] == random.STREAMS["train"].state()
    assert (manifest["state"], manifest["aliases"]) == ({"note": "x"}, {})
    assert device.name not in json.dumps(manifest)


def test_equal_contents_make_equal_files(device, tmp_path):
    model = trained(device)
    save(model, tmp_path / "a")
    save(model, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_what_one_device_wrote_another_reads(device, other_device, tmp_path):
    one, two = trained(device), Net(ADAM()).to(other_device)
    save(one, tmp_path / "a")
    load(two, tmp_path / "a", include_state=True, strict=True)
    save(two, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_it_loads_where_the_backend_that_wrote_it_is_not(far_device, path):
    save(trained(far_device), path)
    code = f"""
import numpy as np, singa_core as sc
from singa_core.io.checkpoint import load
from singa_core.layers import Dropout, Linear, ReLU, Sequential
class Net(sc.Model):
    def __init__(self):
        self.body = Sequential(Linear(8), ReLU(), Dropout(0.4), Linear(3))
        self.loss, self.optimizer = sc.ops.cross_entropy, sc.opt.Adam(0.01)
    def forward(self, x):
        return self.body(x)
net = Net()
load(net, {str(path)!r}, include_state=True, strict=True)
print(net.body.steps[0].weight.device, net.optimizer.steps.value, net.body.steps[0].bias.tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    two = Net(ADAM()).to("cpu_numpy")
    load(two, path)
    assert done.stdout == f"cpu_numpy 3 {two.body.steps[0].bias.tolist()}\n"


# -- names that do not fit ----------------------------------------------------------------------------


def test_a_report_names_what_is_missing_unexpected_and_misshapen(device, path):
    model = trained(device)
    save(model, path)

    def change(arrays, manifest):
        del arrays["body.steps.0.bias"]
        arrays["body.extra"] = np.zeros(2, np.float32)
        arrays["body.steps.3.weight"] = np.zeros((8, 4), np.float32)
        arrays["body.steps.3.bias"] = np.arange(3.0)

    rewritten(path, change)
    other = trained(device, steps=1)
    before = bits(other.get_states())
    lines = (
        r"file and model differ\n  not in the file: body.steps.0.bias\n  not in the model: body.extra\n"
        r"  misshapen: body.steps.3.weight \(needs shape \(8, 3\), got \(8, 4\)\)\n"
        r"  converted: body.steps.3.bias \(float64 to float32\)"
    )
    with pytest.raises(Mismatch, match=lines) as caught:
        load(other, path, strict=True)
    assert bits(other.get_states()) == before
    assert caught.value.report.missing == ("body.steps.0.bias",)
    with pytest.warns(CheckpointWarning, match=lines):
        report = load(other, path)
    assert (report.missing, report.unexpected) == (("body.steps.0.bias",), ("body.extra",))
    assert list(report.misshapen) == ["body.steps.3.weight"]
    now = bits(other.get_states())
    kept = {name for name in now if now[name] == before[name]}
    assert kept == {"body.steps.0.bias", "body.steps.3.weight"}
    assert now["body.steps.0.weight"] == bits(model.get_states())["body.steps.0.weight"]
    assert other.body.steps[3].bias.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("host", "fits"), [
    (np.ones(8, np.float16), True), (np.ones(8, np.int8), True), (np.ones(8, bool), True),
    (np.ones((8, 1), np.float32), False), (np.float32(1), False),
])  # fmt: skip
def test_dtypes_are_converted_and_shapes_are_not(path, host, fits):
    model = trained("cpu_numpy", 0)
    save(model, path)
    rewritten(path, lambda arrays, _: arrays.update({"body.steps.0.bias": host}))
    with pytest.warns(CheckpointWarning, match="converted" if fits else "misshapen"):
        report = load(model, path)
    assert model.body.steps[0].bias.tolist() == [1.0 if fits else 0.0] * 8
    assert list(report.cast if fits else report.misshapen) == ["body.steps.0.bias"]
    with pytest.raises(Mismatch):
        load(model, path, strict=True)


def test_a_higher_kind_does_not_fit(path):
    class Counted(Layer):
        def __init__(self, dtype):
            self.n = State((2,), "ones", dtype=dtype)

        def forward(self):
            return None

    one, two = Counted("float32"), Counted("int32")
    one(), two()  # fmt: skip
    save(one, path)
    with pytest.warns(
        CheckpointWarning, match=r"misshapen: n \(needs values of int32, got float32"
    ):
        load(two, path)
    rewritten(path, lambda arrays, _: arrays.update(n=np.array([1, 2**40])))
    with pytest.warns(CheckpointWarning, match="misshapen: n .needs numbers in the range of int32"):
        load(two, path)
    assert two.n.tolist() == [1, 1]


def test_many_names_are_cut_short(path):
    class Many(Layer):
        def __init__(self, n):
            self.cells = [Parameter((1,)) for _ in range(n)]

        def forward(self):
            return None

    one, two = Many(3), Many(40)
    one(), two()  # fmt: skip
    save(one, path)
    with pytest.warns(
        CheckpointWarning, match=r"not in the file: cells.3, .* cells.10 and 29 more$"
    ):
        report = load(two, path)
    assert len(report.missing) == 37


def test_the_warning_points_at_the_caller(path):
    save(trained("cpu_numpy", 0), path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(Sequential(Linear(2)), path)
    assert caught[0].filename == __file__


def test_undecided_parameters_that_the_file_has_not_stay_so(device, path):
    save(trained(device), path)
    rewritten(path, lambda arrays, _: arrays.pop("body.steps.0.weight"))
    two = Net(ADAM()).to(device)
    with pytest.warns(CheckpointWarning) as caught:
        report = load(two, path, include_state=True)
    assert len(caught) == 1
    assert report.missing == ("body.steps.0.weight",)
    moments = [f"optimizers.optimizer.{slot}.body.steps.0.weight" for slot in "mv"]
    assert sorted(report.unexpected) == moments  # of a parameter that has no value yet
    assert two.body.steps[0].weight.shape == (None, 8)
    two.compile([batch(device)[0]]).train_one_batch(*batch(device))


# -- optimisers, counters, streams --------------------------------------------------------------------


class Many(Model):
    """Optimisers and counters wherever they may be."""

    calm = opt.SGD(0.1, momentum=0.5)

    def __init__(self):
        self.calm = opt.SGD(0.1, momentum=0.5)
        self.body, self.head = Sequential(Linear(8)), Linear(3)
        self.many = {"a": [opt.Adam(0.01)], "same": self.calm}
        self.head.own = opt.RMSprop(0.01)
        self.calls = Counter()
        self.loss = ops.cross_entropy

    def forward(self, x):
        return self.head(self.body(x))

    def train_one_batch(self, x, labels):
        loss = self.loss(self.forward(x), labels)
        self.calls.advance()
        self.calm.params, self.many["a"][0].params = self.body.get_params(), self.head.get_params()
        self.many["a"][0](loss, retain_graph=True)
        return loss


def test_optimisers_and_counters_are_found_in_all_attributes(device, path):
    one, two = Many(), Many()
    one.compile([batch(device)[0]], use_graph=False)
    one.train_one_batch(*batch(device))
    save(one, path)
    report = load(two, path, include_state=True, strict=True)
    assert set(report.manifest["optimizers"]) == {"calm", "many.a.0", "head.own"}
    assert two.many["a"][0].steps.value == 1
    assert two.calm.steps.value == 0
    assert two.calls.value == one.calls.value == 1
    names = [name for name in tensors_of(path) if name.startswith("optimizers.")]
    assert sorted(names) == [
        f"optimizers.many.a.0.{slot}.head.{name}" for slot in "mv" for name in ("bias", "weight")
    ]


def test_an_optimiser_of_the_class_is_found_too(path):
    class Shared(Net):
        optimizer = opt.SGD(0.1, momentum=0.5)

        def __init__(self):
            self.body, self.loss = Sequential(Linear(3)), ops.cross_entropy

    one = Shared().compile([batch("cpu_numpy")[0]])
    one.train_one_batch(*batch("cpu_numpy"))
    save(one, path)
    assert load(one, path, include_state=True).manifest["optimizers"]["optimizer"]["tensors"]


def test_another_optimiser_takes_what_it_knows(device, path):
    save(trained(device), path)
    two = made(device, opt.RMSprop(0.1))  # which has `v`, as Adam has, but no `m` here
    two.optimizer.slots = ("v",)
    with pytest.warns(
        CheckpointWarning, match="not in the model: optimizers.optimizer.m.body.steps"
    ):
        report = load(two, path, include_state=True)
    assert len(report.unexpected) == 4
    assert (two.optimizer.steps.value, len(slots(two))) == (3, 5)
    before = slots(two)
    with pytest.raises(Mismatch):
        load(two, path, include_state=True, strict=True)
    assert slots(two) == before


def test_optimisers_of_one_side_only_are_named(device, path):
    model = made(device, ADAM())
    save(model, path)
    model.optimizer = None
    model.other, model.count = opt.SGD(0.1), Counter()
    with pytest.warns(CheckpointWarning) as caught:
        report = load(model, path, include_state=True)
    assert "not in the file: optimizers.other, count\n" in str(caught[0].message)
    assert report.unexpected == ("optimizers.optimizer",)
    assert load(model, path, strict=True).exact  # parameters alone fit


def test_a_misshapen_slot_is_left_out(device, path):
    save(trained(device), path)
    name = "optimizers.optimizer.m.body.steps.0.bias"
    rewritten(path, lambda arrays, _: arrays.update({name: np.zeros(9, np.float32)}))
    two = trained(device, 1)
    with pytest.warns(
        CheckpointWarning, match=rf"misshapen: {name} \(needs shape \(8,\), got \(9,\)"
    ):
        load(two, path, include_state=True)
    assert not two.optimizer.slot(two.body.steps[0].bias, "m").numpy().any()
    assert two.optimizer.slot(two.body.steps[0].weight, "m").numpy().any()


def test_a_parameter_with_the_name_of_a_slot_is_refused(path):
    model = trained("cpu_numpy")
    model.optimizers = {"optimizer": {"m": {"body": {"steps": {"0": {"bias": Parameter((2,))}}}}}}
    model.optimizers["optimizer"]["m"]["body"]["steps"]["0"]["bias"].materialize("cpu_numpy")
    with pytest.raises(ArgumentError, match="save: needs no parameter named like an optimiser's"):
        save(model, path)
    assert not path.exists()


# -- shared parameters --------------------------------------------------------------------------------


class Pair(Layer):
    """Two layers, tied or not, under names in this or that order."""

    def __init__(self, tie="none", first="a"):
        layers = {"a": Linear(3, in_features=3), "b": Linear(3, in_features=3)}
        if tie == "weight":
            layers["b"].weight = layers["a"].weight
        elif tie == "layer":
            layers["b"] = layers["a"]
        for name in sorted(layers, reverse=first == "b"):
            setattr(self, name, layers[name])

    def forward(self, x):
        return self.b(self.a(x))


def pair(*args, fill=None):
    layer = Pair(*args)
    layer(tensor(np.ones((1, 3), np.float32)))
    if fill is not None:
        for i, cell in enumerate(layer.get_states().values()):
            cell.assign(tensor(np.full(cell.shape, float(fill + i), np.float32)))
    return layer


def test_other_names_of_shared_parameters():
    assert aliases(Pair()) == {}
    assert aliases(Pair("weight")) == {"b.weight": "a.weight"}
    assert aliases(Pair("weight", "b")) == {"a.weight": "b.weight"}
    assert aliases(Pair("layer")) == {"b": "a"}
    nested = Layer()
    nested.x, nested.y = Pair("layer"), Sequential(Linear(2))
    nested.z = nested.x
    assert aliases(nested) == {"x.b": "x.a", "z": "x"}
    assert canonical("z.b.weight", aliases(nested)) == "x.a.weight"
    assert canonical("zb.weight", aliases(nested)) == "zb.weight"


@pytest.mark.parametrize("tie", ["weight", "layer"])
@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("loaded", [("none",), ("weight", "a"), ("weight", "b"), ("layer", "a"), ("layer", "b")])  # fmt: skip
def test_tied_parameters_reach_every_name(path, tie, first, loaded):
    one, two = pair(tie, first, fill=1), pair(*loaded, fill=50)
    if tie == "weight" and loaded[0] == "layer":  # two biases are not one
        one.b.bias.assign(one.a.bias)
    save(one, path)
    names = {"layer": 2, "weight": 3}[tie]
    assert len(tensors_of(path)) == names
    assert load(two, path, strict=True).exact
    for name in "ab":
        for cell in ("weight", "bias"):
            wanted, got = (getattr(getattr(x, name), cell).tolist() for x in (one, two))
            assert got == wanted


def test_two_values_for_one_parameter_are_told(path):
    one, two = pair(fill=1), pair("weight", fill=50)
    save(one, path)
    with pytest.warns(CheckpointWarning, match=r"differ\n  not in the model: b.weight$"):
        load(two, path)
    assert two.a.weight.tolist() == one.a.weight.tolist()
    one.b.weight.assign(one.a.weight)  # equal ones are one
    save(one, path)
    assert load(two, path, strict=True).exact


class Tied(Model):
    def __init__(self, *kind):
        self.pair, self.optimizer = Pair(*kind), ADAM()
        self.loss = lambda y, _: y.square().mean()

    def forward(self, x):
        return self.pair(x)


def step(device, *kind):
    model = Tied(*kind).compile([Placeholder((2, 3), device=device)])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    model.train_one_batch(x, x)
    return model


@pytest.mark.parametrize("loaded", ["a", "b"])
def test_an_optimisers_state_finds_a_shared_parameter_by_any_name(device, path, loaded):
    one, two = step(device, "weight", "a"), Tied("weight", loaded).to(device)
    save(one, path)
    assert load(two, path, include_state=True, strict=True).exact
    for slot in "mv":
        shared = [net.optimizer.slot(net.pair.a.weight, slot).tolist() for net in (one, two)]
        assert shared[0] == shared[1] != np.zeros((3, 3)).tolist()


def test_a_name_that_only_the_model_knows_to_be_shared(device, path):
    """The file is of a model without `a`, where nothing was shared."""
    one = step(device, "layer", "b")
    one.pair.a = None
    assert list(one.get_states()) == ["pair.b.weight", "pair.b.bias"]
    save(one, path)
    assert load(one, path).manifest["aliases"] == {}
    two = Tied("layer", "a").to(device)
    assert load(two, path, include_state=True, strict=True).exact
    assert list(two.get_states()) == ["pair.a.weight", "pair.a.bias"]
    assert bits(two.pair.a.get_states()) == bits(one.pair.b.get_states())
    assert two.optimizer.slot(two.pair.a.bias, "m").numpy().any()


def test_a_name_that_only_the_file_knows_to_be_shared(device, path):
    """The model is without the layer under whose name the file has what was shared."""
    one = step(device, "layer", "a")
    save(one, path)
    two = Tied("none", "b").to(device)
    two.pair.a = None
    assert load(two, path, include_state=True, strict=True).exact
    assert bits(two.pair.b.get_states()) == bits(one.pair.a.get_states())
    assert two.optimizer.slot(two.pair.b.bias, "m").numpy().any()


# -- the user's state ---------------------------------------------------------------------------------


def test_a_state_comes_back_as_json(path):
    state = {
        "a": (1, [2.5, None, True]), "b": {"c": "äß"}, "n": np.int64(3), "x": np.float32(0.1),
        "inf": float("inf"), "third": 1 / 3, "key": 2**64 - 1,
    }  # fmt: skip
    save(trained("cpu_numpy", 0), path, state)
    back = load(trained("cpu_numpy", 0), path).state
    assert back == {
        "a": [1, [2.5, None, True]], "b": {"c": "äß"}, "n": 3, "x": float(np.float32(0.1)),
        "inf": float("inf"), "third": 1 / 3, "key": 2**64 - 1,
    }  # fmt: skip


@pytest.mark.parametrize(("value", "text"), [
    (np.zeros(2), "in state\\['x'\\], got a ndarray"), ({1: 2}, "got keys that are no text"),
    ([1, {"y": {2}}], "in state\\['x'\\]\\[1\\]\\['y'\\], got a set"), (1j, "got a complex"),
])  # fmt: skip
def test_what_json_cannot_hold_is_refused(path, value, text):
    with pytest.raises(
        ArgumentError, match=f"save: needs numbers, text, lists and dicts {text}|{text}"
    ):
        save(trained("cpu_numpy", 0), path, {"x": value})
    assert not path.exists()


def test_a_model_without_values_is_refused(path):
    with pytest.raises(ArgumentError, match="needs parameters that have a value, got body.steps.0"):
        save(Net(), path)
    assert not path.exists()


def test_nothing_is_saved_while_a_graph_is_recorded(path):
    class Saves(Net):
        def forward(self, x):
            y = self.body(x)
            save(self, path)
            return y

    with pytest.raises(RecordingError):
        made("cpu_numpy", kind=Saves)
    assert not path.exists()


def test_input_specs_are_written_where_they_are_known(path):
    model = trained("cpu_numpy", 0)
    model.input_specs = (batch("cpu_numpy")[0].spec,)
    save(model, path)
    assert load(model, path).manifest["inputs"] == [{"shape": [6, 4], "dtype": "float32"}]


def test_a_state_of_a_layer_is_part_of_it(device, path):
    one, two = Scale(), Scale()
    x = tensor(np.ones((2, 3), np.float32), device=device)
    for _ in range(3):
        one(x)
    two(x)
    save(one, path)
    load(two, path, strict=True)
    assert (contents(two), two.seen.item()) == (contents(one), 3.0)
