"""Which device is chosen, when it opens, what it tells of kernels, and what is kept on disk."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import singa_core as sc
from conftest import open_device
from singa_core import ops
from singa_core.errors import DeviceFailure, OutOfRange, PluginError, StateLost
from singa_core.kernels.c.dialect import Call, Source
from singa_core.registry import Registry

pytest.importorskip("pyopencl")
choice = pytest.importorskip("singa_opencl.choice")


@pytest.fixture
def device():
    device = open_device("opencl")
    device.open()
    return device


def python(code, **environment):
    """What a fresh process prints, and its exit status."""
    made = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    return made.stdout.strip(), made.stderr, made.returncode


# -- choosing a device --------------------------------------------------------------------------------


def test_a_text_that_no_device_has_is_told_with_what_there_is():
    out, err, code = python(
        """
        import singa_core as sc
        try:
            sc.device("opencl")
        except sc.errors.PluginError as error:
            print(error)
        """,
        SINGA_OPENCL_DEVICE="no such thing",
    )
    assert code == 0, err
    assert "backend 'opencl'" in out
    assert "probe: not usable here" in out
    assert "does not match SINGA_OPENCL_DEVICE='no such thing'" in out


def test_a_family_that_there_is_not_is_told():
    out, err, _ = python(
        "import singa_opencl; print(singa_opencl.probe().reason)", SINGA_OPENCL_FAMILY="tpu"
    )
    assert out == "SINGA_OPENCL_FAMILY is 'tpu', which is none of cpu, gpu", err


def test_without_a_linker_the_cpu_driver_that_calls_it_is_refused(device):
    if "Portable Computing" not in device.native.platform.name:
        pytest.skip("another driver than PoCL")
    out, err, _ = python(
        "import singa_opencl; print(singa_opencl.probe().reason)",
        PATH="", SINGA_OPENCL_DEVICE="Portable Computing",
    )  # fmt: skip
    assert "calls the linker `ld`, which is not on PATH" in out, err
    assert "install binutils" in out


def test_without_a_driver_the_probe_says_how_to_get_one():
    error = RuntimeError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")
    assert choice.no_platform(error) == (
        "no OpenCL driver (ICD) is installed; pip install 'pyopencl[pocl]' brings a driver "
        "for the CPU"
    )


def test_gpu_means_a_device_that_its_driver_calls_one(device):
    import pyopencl as cl  # noqa: PLC0415

    devices = choice.choose(os.environ.get(choice.DEVICE) or "").devices
    kinds, gpus = choice.find().kinds, [bool(d.type & cl.device_type.GPU) for d in devices]
    assert [kind == "gpu" for kind in kinds] == gpus
    if "cpu" in kinds and not any(gpus):
        with pytest.raises(sc.errors.BackendNotFound, match=r"opencl \(its devices are CPUs;"):
            Registry().resolve("gpu")  # without the devices of the tests


def test_an_index_beyond_the_devices_is_refused(device):
    with pytest.raises(sc.errors.DeviceError, match=r"opencl:99: needs 0 <= index < \d+, got 99"):
        sc.device("opencl:99")


def test_importing_the_manifest_imports_no_driver():
    out, err, _ = python("import sys, singa_opencl; print('pyopencl' in sys.modules)")
    assert out == "False", err


def test_a_device_opens_whatever_is_asked_of_it_first():
    for first in ("d.call(int)", "d.synchronize()", "d.alloc(4)", "d.target('c')"):
        out, err, _ = python(
            f"import singa_core as sc; d = sc.device('opencl'); {first}; d.synchronize(); print(1)"
        )
        assert out == "1", (first, err)


# -- what goes wrong ----------------------------------------------------------------------------------


class Net(sc.Model):
    def __init__(self):
        self.body = sc.layers.Sequential(
            sc.layers.Linear(16), sc.layers.ReLU(), sc.layers.Linear(4)
        )
        self.loss, self.optimizer = ops.cross_entropy, sc.opt.SGD(0.1, momentum=0.9)

    def forward(self, x):
        return self.body(x)


def test_a_wrong_index_is_told_when_the_device_is_waited_for_and_once(device):
    x = sc.tensor([1.0, 2.0, 3.0], device=device)
    y = ops.gather(x, sc.tensor([0, 3], device=device), axis=0)
    with pytest.raises(OutOfRange, match="gather: needs -3 <= index < 3, got 3"):
        y.numpy()
    assert x.tolist() == [1, 2, 3]
    assert ops.gather(x, sc.tensor([-1], device=device), axis=0).tolist() == [3]


def test_a_wrong_label_in_a_step_means_that_state_is_lost(device):
    net = Net().compile([sc.Placeholder((8, 5), device=device)])
    x, labels = np.ones((8, 5), np.float32), np.arange(8) % 4
    _, loss = net.train_one_batch(x, labels)
    float(loss)
    _, loss = net.train_one_batch(x, labels + 7)
    with pytest.raises(StateLost, match="failed with OutOfRange: .* got "):
        float(loss)


def test_a_kernel_that_does_not_compile_is_told_with_its_text(device):
    bad = Source("bad", (("y", "f32", "out"),), (), "    y[0] = nonsense;")
    launch = device.compiler.launch([Call(bad, (1,), (1,), (0,))], 1)
    with pytest.raises(DeviceFailure, match=r"kernel bad does not compile on .*") as e:
        launch((device.alloc(4), 0))
    assert "nonsense" in str(e.value)
    assert "KERNEL(k_bad)" in str(e.value)


def test_one_bad_kernel_of_many_is_named(device):
    good = Source("good", (("y", "f32", "out"),), (), "    y[0] = 41;")
    bad = Source("bad", (("y", "f32", "out"),), (), "    y[0] = nonsense;")
    with pytest.raises(DeviceFailure, match=r"kernel bad does not compile"):
        device.compiler.compile([good, bad])
    buffer = device.alloc(4)
    device.compiler.launch([Call(good, (1,), (1,), (0,))], 1)((buffer, 0))
    host = np.zeros(1, np.float32)
    device.download(buffer, 0, host.view(np.uint8))
    assert host[0] == 41


def test_kernels_of_a_batch_keep_their_own_names(device):
    def source(value):
        return Source(
            "twice", (("y", "i32", "out"),), (("n", "IDX"),), "    y[0] = f(n) + MORE;",
            (f"#define MORE {value}\ntypedef int mine;\n"
             f"FUNCTION mine f(mine n) {{ return n * {value}; }}\n",),
        )  # fmt: skip

    sources = [source(3), source(5)]
    device.compiler.compile(sources)
    buffer, host = device.alloc(4), np.zeros(1, np.int32)
    for one, expected in zip(sources, (2 * 3 + 3, 2 * 5 + 5), strict=True):
        device.compiler.launch([Call(one, (1,), (1,), (0,), (2,))], 1)((buffer, 0))
        device.download(buffer, 0, host.view(np.uint8))
        assert host[0] == expected


def test_a_second_process_finds_what_the_first_has_compiled(device, tmp_path):
    code = """
    import singa_core as sc
    x = sc.tensor([[1.0, 2.0]], device="opencl")
    print(((x * 2 - 1).exp() @ x.T).tolist())
    """

    def kept():
        return {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.so")}

    where = {"XDG_CACHE_HOME": str(tmp_path), "POCL_CACHE_DIR": str(tmp_path / "pocl")}
    first, err, _ = python(code, **where)
    assert first, err
    made = kept()
    if not made:
        pytest.skip("a driver that keeps no machine code on disk")
    second, _, _ = python(code, **where)
    assert second == first
    assert kept() == made


def test_what_the_driver_is_called_is_told(device):
    assert device.driver
    assert isinstance(device.memory_info()["capacity"], int)
    with pytest.raises(PluginError):
        sc.device("opencl_that_is_not")
