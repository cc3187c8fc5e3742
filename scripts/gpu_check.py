"""What a run on a machine with a GPU has to show, in under eight minutes.

python scripts/gpu_check.py                    on a machine with an NVIDIA GPU, or any OpenCL GPU
python scripts/gpu_check.py --dry-run          here: the GPU's kernels on the CPU's OpenCL driver
python scripts/gpu_check.py --part compile     one part, in this process

Every part runs in a process of its own with a limit of its own, so that one that hangs or dies does
not stop the rest. Each gives a line of JSON: the part, whether it passed, seconds, and what it saw.
What is not there (CuPy, NVRTC, an OpenCL driver for the GPU) is said, and counts as skipped.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from singa_core.conformance.cases import NAMES, Case, cases
from singa_core.conformance.groups import common
from singa_core.device import Capabilities
from singa_core.dtype import ALL
from singa_core.kernels.c import c, prelude
from singa_core.kernels.c.dialect import FAULT, Call, Source, Target
from singa_core.resolve import casts_for
from singa_core.spec import Spec

ROOT = Path(__file__).resolve().parent.parent
QUICK = ("float32", "float16", "int64", "bool")
ARCHITECTURE = "compute_90"
FAMILY = "gpu"


class Skipped(Exception):
    """A part that has nothing to run on."""


# -- every kernel of the C dialect, without a device -----------------------------------------------


class Paper(Target):
    """Says what a GPU would say, and launches nothing."""

    def launch(self, calls: Sequence[Call], operands: int) -> Callable[..., None]:
        """Nothing runs on paper."""
        return lambda *handles: None


def kernel_calls(only: tuple[str, ...] | None) -> Iterator[tuple[Case, list[Any], list[Spec], Any]]:
    """(case, inputs, output specs, calls) of every case that has a C kernel."""
    anything = SimpleNamespace(capabilities=SimpleNamespace(dtypes=frozenset(ALL)))
    for name in NAMES:
        for case in cases(name, anything, only):  # type: ignore[arg-type]  # its dtypes are asked for
            hosts, outs = case.hosts(), list(case.infer())
            specs = [Spec(h.shape, h.dtype) for h in hosts]
            if case.op.promotes and casts_for(case.op, tuple(specs)) is not None:
                continue  # the cast has kernels of its own
            kernel = c.find(name, [s.dtype for s in specs], [s.dtype for s in outs])
            if kernel is None:
                continue
            named = dict(zip(case.op.attributes, case.attrs(), strict=True))
            options = case.op.settle(*specs, **named)
            if case.op.route(*specs, **options) is not None:
                continue  # it is made of others
            found = c.calls_of(kernel)(Paper(Capabilities(family=FAMILY)), specs, outs, **options)
            if found is not None:
                yield case, hosts, outs, found


def text_of(source: Source) -> str:
    """The kernel in CUDA C++."""
    return prelude.cuda(source.codes) + source.text()


# -- parts -----------------------------------------------------------------------------------------


def versions(dry: bool) -> dict[str, Any]:
    """What is installed, and what devices there are."""
    names = ("numpy", "pyopencl", "cupy", "cupy-cuda12x", "cupy-cuda13x", "torch", "singa-opencl")
    found = {"python": platform.python_version(), "system": platform.platform()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    told = subprocess.run(
        [sys.executable, "-m", "singa_core", "devices"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return {**found, "devices": told.stdout.splitlines()}


def compiles(dry: bool) -> dict[str, Any]:
    """Every kernel of the dialect goes through NVRTC."""
    nvrtc = Nvrtc()
    sources = {
        call.source
        for _, _, _, found in kernel_calls(QUICK if dry else None)
        for call in (found[0] if isinstance(found, tuple) else found)
    }
    wrong = []
    for source in sorted(sources, key=lambda s: s.name):
        log = nvrtc.compile(text_of(source))
        if log:
            wrong.append(f"{source.name}: {log.splitlines()[0]}")
    if not sources:
        raise RuntimeError("no kernel was found")
    return {"nvrtc": nvrtc.version, "kernels": len(sources), "wrong": wrong, "passed": not wrong}


class Nvrtc:
    """NVIDIA's run-time compiler, which needs no GPU."""

    def __init__(self) -> None:
        there = importlib.util.find_spec("nvidia")  # without it, a name inside would raise
        spec = importlib.util.find_spec("nvidia.cuda_nvrtc") if there else None
        places = list(spec.submodule_search_locations or ()) if spec else []
        found = sorted(p for place in places for p in Path(place, "lib").glob("libnvrtc.so.*"))
        try:
            self.library = ctypes.CDLL(str(found[0]) if found else "libnvrtc.so")
        except OSError as error:
            raise Skipped(f"no NVRTC: pip install nvidia-cuda-nvrtc-cu12 ({error})") from error
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, text: str) -> str:
        """What the compiler complains about; nothing if it does not."""
        library, program = self.library, ctypes.c_void_p()
        library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None
        )
        options = [f"--gpu-architecture={ARCHITECTURE}".encode(), b"-fmad=false"]
        status = library.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*options)
        )
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(max(size.value, 1))
        library.nvrtcGetProgramLog(program, log)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        errors = [line for line in log.value.decode().splitlines() if "error" in line]
        return "\n".join(errors or [f"status {status}"]) if status else ""


def runs(dry: bool) -> dict[str, Any]:
    """Every kernel of the dialect on the GPU, into poisoned memory, against the references."""
    cupy = cupy_or_skip()
    wrong, count = [], 0
    modules: dict[Source, Any] = {}
    for case, hosts, outs, found in kernel_calls(None):
        calls, nbytes = found if isinstance(found, tuple) else (found, 0)
        ins = [cupy.asarray(np.ascontiguousarray(h).reshape(-1).view(np.uint8)) for h in hosts]
        made = [cupy.full(max(spec.nbytes, 1), 0xA5, np.uint8) for spec in outs]
        buffers = [*ins, *made, cupy.full(max(nbytes, 1), 0xA5, np.uint8)]
        for call in calls:
            if call.source not in modules:
                module = cupy.RawModule(code=text_of(call.source), options=("-fmad=false",))
                modules[call.source] = module.get_function(call.source.entry)
            launch(cupy, modules[call.source], call, buffers)
        cupy.cuda.Device().synchronize()
        results = [
            got.get()[: spec.nbytes].view(spec.dtype.numpy).reshape(spec.shape)
            for got, spec in zip(made, outs, strict=True)
        ]
        try:
            common.compare_all(
                case.name, results, common.reference(case, hosts), common.terms(hosts)
            )
        except Exception as error:  # every wrong kernel is to be told, not the first
            wrong.append(f"{case}: {error}"[:300])
        count += 1
    return {"cases": count, "kernels": len(modules), "wrong": wrong[:50], "passed": not wrong}


def cupy_or_skip() -> Any:
    """CuPy with a GPU under it."""
    try:
        import cupy  # noqa: PLC0415  (only here)

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise Skipped(f"no CuPy, or no GPU for it: {type(error).__name__}: {error}") from error
    return cupy


def launch(cupy: Any, function: Any, call: Call, buffers: Sequence[Any]) -> None:
    """One call on buffers of bytes."""
    fault = cupy.zeros(3, np.int64)
    arguments: list[Any] = []
    for place, start in zip(call.operands, call.begins, strict=True):
        arguments += [fault if place == FAULT else buffers[place], np.int64(start)]
    numbers = (*call.numbers, 0) if call.fault is not None else call.numbers
    for name, value in zip(call.source.number_types, numbers, strict=True):
        arguments.append(np.dtype(name).type(value))
    grid = tuple(i // g for i, g in zip(call.items, call.group, strict=True))
    function(grid, call.group, tuple(arguments))


def conforms(dry: bool) -> dict[str, Any]:
    """The conformance kit on the OpenCL driver of the GPU."""
    name = opencl_or_skip(dry)
    command = [sys.executable, "-m", "singa_core.conformance", name, "--level", "core"]
    if dry:
        command += ["--groups", "manifest,device"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"device": name, "passed": told.returncode == 0, "says": told.stdout.splitlines()[-12:]}


def opencl_or_skip(dry: bool) -> str:
    """The name of the first OpenCL GPU; the CPU's driver in a dry run."""
    try:
        from singa_core import device, registry  # noqa: PLC0415

        probe = registry.registry.probe("opencl")
    except Exception as error:
        raise Skipped(f"no OpenCL: {type(error).__name__}: {error}") from error
    if not probe.usable:
        raise Skipped(f"no OpenCL: {probe.reason}")
    for index in range(probe.device_count):
        name = f"opencl:{index}" if index else "opencl"
        if dry or device(name).capabilities.family == "gpu":
            return name
    raise Skipped("no OpenCL device is a GPU")


def trains(dry: bool) -> dict[str, Any]:
    """The main example reaches the accuracy of the CPU, and its graph grows nothing."""
    name = opencl_or_skip(dry)
    seen: dict[str, Any] = {}
    more = {"SINGA_OPENCL_FAMILY": "cpu"} if dry else {}  # a GPU's kernels crawl on a CPU
    for where in ("cpu", name):
        told = subprocess.run(
            [sys.executable, ROOT / "examples/mnist_cnn.py", "--device", where, "--epochs", "2"],
            capture_output=True, text=True, check=False, env={**os.environ, **more},
        )  # fmt: skip
        lines = [line for line in told.stdout.splitlines() if "accuracy" in line or "step" in line]
        seen[where] = lines[-4:] or told.stderr.splitlines()[-3:]
        words = [line.split() for line in lines if line.startswith("test accuracy")]
        seen[f"{where} accuracy"] = float(words[-1][2]) if words else 0.0
    apart = abs(seen["cpu accuracy"] - seen[f"{name} accuracy"])
    return {**seen, "passed": apart <= 0.02 and seen["cpu accuracy"] > 0.8}


def replays(dry: bool) -> dict[str, Any]:
    """A thousand replays of a step: what they take, and that they leave nothing behind."""
    import singa_core as sc  # noqa: PLC0415
    from singa_core.layers import Linear, ReLU, Sequential  # noqa: PLC0415

    device = sc.device(opencl_or_skip(dry))

    class Net(sc.Model):
        def __init__(self) -> None:
            self.body = Sequential(Linear(256), ReLU(), Linear(256), ReLU(), Linear(10))
            self.loss, self.optimizer = sc.ops.cross_entropy, sc.opt.SGD(0.01, momentum=0.9)

        def forward(self, x: Any) -> Any:
            return self.body(x)

    net = Net()
    x = sc.tensor(np.random.default_rng(0).random((64, 256), np.float32), device=device)
    labels = sc.tensor(np.arange(64) % 10, device=device)
    net.compile([x])
    for _ in range(3):
        float(net.train_one_batch(x, labels)[1])
    before, start = device.memory.current, time.perf_counter()
    for _ in range(1000):
        loss = net.train_one_batch(x, labels)[1]
    float(loss)
    step = (time.perf_counter() - start) * 1e3
    launches = net.graph_report()[0]["launches"]
    return {
        "device": str(device), "microseconds_per_step": round(step, 1), "launches": launches,
        "grown_bytes": device.memory.current - before, "passed": device.memory.current == before,
    }  # fmt: skip


def speed(dry: bool) -> dict[str, Any]:
    """Products and convolutions of the GPU's kernels, beside PyTorch where it has the GPU."""
    import singa_core as sc  # noqa: PLC0415

    device = sc.device(opencl_or_skip(dry))
    size, channels = (256, 16) if dry else (4096, 256)
    rng = np.random.default_rng(0)
    a, b = (sc.tensor(rng.random((size, size), np.float32), device=device) for _ in range(2))
    x = sc.tensor(rng.random((16, channels, 32, 32), np.float32), device=device)
    w = sc.tensor(rng.random((channels, channels, 3, 3), np.float32), device=device)
    work = {
        "matmul": (sc.graph(lambda a, b: a @ b), (a, b), 2 * size**3),
        "conv 3x3": (
            sc.graph(lambda x, w: sc.ops.conv(x, w, padding=1)), (x, w),
            2 * 16 * channels**2 * 9 * 32 * 32,
        ),
    }  # fmt: skip
    rates: dict[str, Any] = {"device": str(device)}
    with sc.no_grad():
        for name, (function, args, flops) in work.items():
            function(*args)
            device.synchronize()
            start = time.perf_counter()
            for _ in range(10):
                function(*args)
            device.synchronize()
            rates[f"{name} GFLOP/s"] = round(10 * flops / (time.perf_counter() - start) / 1e9, 1)
    return {**rates, "passed": True}


PARTS: dict[str, tuple[int, Callable[[bool], dict[str, Any]]]] = {
    "versions": (20, versions),
    "compile": (90, compiles),
    "run": (90, runs),
    "conform": (120, conforms),
    "train": (60, trains),
    "replay": (30, replays),
    "speed": (30, speed),
}
"""Name: (seconds it may take, what it does). Together they stay under eight minutes."""


def one(name: str, dry: bool) -> dict[str, Any]:
    """A part in this process."""
    try:
        return {"passed": True, **PARTS[name][1](dry)}
    except Skipped as reason:
        return {"passed": None, "skipped": str(reason)}
    except Exception:
        return {"passed": False, "error": traceback.format_exc(limit=3).splitlines()[-6:]}


def apart(name: str, dry: bool, factor: float) -> dict[str, Any]:
    """A part in a process of its own, within its time."""
    command = [sys.executable, __file__, "--part", name, *(["--dry-run"] if dry else [])]
    more = {"SINGA_OPENCL_FAMILY": "gpu"} if dry else {}
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=PARTS[name][0] * factor, check=False,
            env={**os.environ, **more},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"passed": False, "error": f"not done within {PARTS[name][0] * factor:.0f} s"}
    try:
        result: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        tail = told.stderr.splitlines()[-4:]
        result = {"passed": False, "error": [f"status {told.returncode}", *tail]}
    return result


def main() -> int:
    """Run the parts; gives 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry-run", action="store_true", help="where there is no GPU")
    parser.add_argument("--part", choices=PARTS, help="only this one, in this process")
    parser.add_argument("--out", type=Path, help="a file for the lines, too")
    parser.add_argument("--patience", type=float, default=1.0, help="a factor on all limits")
    options = parser.parse_args()
    if options.part:
        result = one(options.part, options.dry_run)
        print(json.dumps(result))
        return int(not result["passed"])  # who asks for a part wants it to run
    failed = False
    for name in PARTS:
        start = time.perf_counter()
        result = apart(name, options.dry_run, options.patience)
        line = json.dumps(
            {"part": name, "seconds": round(time.perf_counter() - start, 1), **result}
        )
        print(line, flush=True)
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        failed |= result["passed"] is False
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
