"""Finding and loading backends: each stage's error in full, and that nobody else is disturbed.

The backends here are real distributions, written into a temporary folder on the import path.
"""

import builtins
import gc
import os
import re
import subprocess
import sys
import textwrap
import threading
import tomllib
import weakref
from pathlib import Path

import importlib_metadata
import pytest

from singa_core.device import Device
from singa_core.errors import BackendNotFound, DeviceError, PluginError
from singa_core.hints import install_hint, known_distributions
from singa_core.registry import Manifest, Probe, Registry

GOOD = """
from singa_core.registry import Manifest, Probe
manifest = Manifest(
    name={called!r}, api={api}, device_type={device_type!r}, probe=lambda: {probe},
    open={open!r}, priority={priority},
)
"""
OPENER = """
from far.device import FarDevice
opened = []
def open_device(index):
    opened.append(index)
    return FarDevice(index)
"""
USABLE = "Probe(True, '', 2)"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs a distribution with one backend in it."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def install(name, *, distribution=None, version="1.2", manifest=None, opener=OPENER, **values):
        module = f"toy_{name}"
        distribution = distribution or f"singa-{name}"
        default = {
            "called": name, "api": (1, 0), "device_type": "gpu", "probe": USABLE,
            "open": f"{module}.device:open_device", "priority": 0,
        }  # fmt: skip
        package = tmp_path / module
        package.mkdir(exist_ok=True)
        text = GOOD.format(**(default | values)) if manifest is None else manifest
        (package / "__init__.py").write_text(text, encoding="utf-8")
        (package / "device.py").write_text(opener, encoding="utf-8")
        info = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            f"[singa.backends]\n{name} = {module}:manifest\n", encoding="utf-8"
        )
        return module

    yield install
    for module in set(sys.modules) - before:
        if module.startswith("toy_"):
            del sys.modules[module]


@pytest.fixture
def alone(monkeypatch):
    """Backends that were there before the test are not seen."""
    found = importlib_metadata.entry_points
    before = {point.value for point in found(group="singa.backends")}

    def entry_points(**wanted):
        return [point for point in found(**wanted) if point.value not in before]

    monkeypatch.setattr(importlib_metadata, "entry_points", entry_points)


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(importlib_metadata, "entry_points", lambda **_: [])


def told(call, *args, error=PluginError):
    """The text of the error that a call must raise."""
    with pytest.raises(error) as e:
        call(*args)
    return str(e.value)


# -- one stage after the other ----------------------------------------------------------------------


def test_a_good_backend_goes_through_all_stages(installed):
    module = installed("alpha")
    registry = Registry()
    assert "alpha" in registry.names()
    assert registry.manifest("alpha").name == "alpha"
    assert registry.probe("alpha") == Probe(True, "", 2)
    assert f"{module}.device" not in sys.modules  # imported on first use
    device = registry.device("alpha")
    assert (
        registry.device("alpha", 0)
        is registry.resolve("alpha")
        is registry.resolve("alpha:0")
        is device
    )
    assert registry.resolve("alpha:1") is not device
    assert sys.modules[f"{module}.device"].opened == [0, 1]


def test_metadata_no_such_backend(installed):
    installed("alpha")
    registry = Registry()
    names = ", ".join(registry.names())
    assert told(registry.resolve, "alhpa", error=BackendNotFound) == (
        f"backend 'alhpa': no such backend; installed: {names}\ntry: 'alpha'"
    )


@pytest.mark.parametrize("name", known_distributions())
def test_metadata_a_known_backend_comes_with_the_command(nothing_installed, name):
    assert told(Registry().resolve, name, error=BackendNotFound) == (
        f"backend {name!r}: no such backend; installed: none\ntry: {install_hint(name)}"
    )


def test_metadata_a_name_is_compared_without_case_and_with_what_others_call_it(alone, installed):
    cuda = told(Registry().resolve, "cuda:1", error=BackendNotFound)
    assert cuda == (
        "backend 'cuda': no such backend; installed: none\n"
        "try: pip install './backends/opencl[pocl]' in a checkout "
        "(pip install 'singa-opencl[pocl]' once released)"
    )
    for name in ("OpenCL", "opncl"):
        text = told(Registry().resolve, name, error=BackendNotFound)
        assert text.partition("\n")[2] == cuda.partition("\n")[2]
    installed("opencl")
    for name in ("CUDA", "OpenCL", "opncl"):
        assert told(Registry().resolve, name, error=BackendNotFound).endswith("\ntry: 'opencl'")
    assert told(Registry().resolve, "GPU", error=BackendNotFound).endswith("\ntry: 'gpu'")


def test_metadata_two_distributions_with_one_name(installed):
    module = installed("alpha", distribution="singa-alpha")
    installed("alpha", distribution="other-alpha", version="3.0")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha': metadata: offered by 2 distributions: other-alpha 3.0, singa-alpha 1.2\n"
        "try: uninstall all but one of them"
    )
    assert module not in sys.modules


def test_manifest_its_import_raises(installed):
    installed("alpha", manifest="import toy_library_that_is_missing")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): manifest: import of toy_alpha:manifest raised "
        "ModuleNotFoundError: No module named 'toy_library_that_is_missing'"
    )


def test_manifest_is_not_there(installed):
    installed("alpha", manifest="")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): manifest: import of toy_alpha:manifest raised "
        "AttributeError: module 'toy_alpha' has no attribute 'manifest'"
    )


def test_manifest_of_another_type(installed):
    installed("alpha", manifest="manifest = {'name': 'alpha'}")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): manifest: "
        "expected a singa_core.registry.Manifest, got dict"
    )


def test_manifest_of_another_name(installed):
    installed("alpha", called="beta")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): manifest: entry point 'alpha' but Manifest.name is 'beta'"
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [({"api": "'1.0'"}, "api=(major, minor)"), ({"api": (1,)}, "api=(major, minor)"),
     ({"priority": None}, "an integer priority"), ({"device_type": None}, "a device_type of text"),
     ({"open": "toy_alpha.device"}, "open='module:function'")],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_manifest_with_a_field_that_would_break_others(installed, values, expected):
    installed("alpha", **values)
    assert told(Registry().resolve, "alpha") == (
        f"backend 'alpha' (singa-alpha 1.2): manifest: expected {expected} in the Manifest"
    )


@pytest.mark.parametrize(
    ("api", "hint"), [((2, 0), "singa-core"), ((1, 1), "singa-core"), ((0, 9), "singa-alpha")]
)
def test_handshake(installed, api, hint):
    module = installed("alpha", api=api)
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): handshake: written for interface "
        f"{api[0]}.{api[1]}, this singa-core speaks 1.0\ntry: pip install --upgrade {hint}"
    )
    assert f"{module}.device" not in sys.modules


def test_handshake_an_older_minor_is_welcome(installed, monkeypatch):
    monkeypatch.setattr(sys.modules["singa_core.registry"], "BACKEND_API", (1, 3))
    installed("alpha", api=(1, 1))
    assert Registry().resolve("alpha").backend == "far"


def test_probe_says_no(installed):
    module = installed("alpha", probe="Probe(False, 'no driver (libtoy.so.1 not found)')")
    registry = Registry()
    for _ in range(2):
        assert told(registry.resolve, "alpha") == (
            "backend 'alpha' (singa-alpha 1.2): probe: "
            "not usable here: no driver (libtoy.so.1 not found)"
        )
    assert f"{module}.device" not in sys.modules


def test_probe_raises(installed):
    installed("alpha", probe="1 / 0")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): probe: not usable here: "
        "probe raised ZeroDivisionError: division by zero; it must not raise"
    )


def test_probe_gives_something_else(installed):
    installed("alpha", probe="True")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): probe: not usable here: "
        "probe gave bool, expected singa_core.registry.Probe"
    )


def test_import_raises(installed):
    installed("alpha", opener="raise OSError('libtoy.so.1: wrong version')")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): import: import of toy_alpha.device:open_device raised "
        "OSError: libtoy.so.1: wrong version"
    )


def test_import_finds_no_function(installed):
    installed("alpha", opener="")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): import: import of toy_alpha.device:open_device raised "
        "AttributeError: module 'toy_alpha.device' has no attribute 'open_device'"
    )


def test_init_raises(installed):
    installed("alpha", opener="def open_device(index): raise RuntimeError(f'device {index} hangs')")
    assert told(Registry().resolve, "alpha:1") == (
        "backend 'alpha' (singa-alpha 1.2): init: toy_alpha.device:open_device(1) raised "
        "RuntimeError: device 1 hangs"
    )


def test_init_raises_in_our_words(installed):
    opener = """
    from singa_core.errors import DeviceError
    def open_device(index):
        raise DeviceError("alpha", "a display", "none")
    """
    installed("alpha", opener=textwrap.dedent(opener))
    assert (
        told(Registry().resolve, "alpha", error=DeviceError) == "alpha: needs a display, got none"
    )


def test_init_gives_no_device(installed):
    installed("alpha", opener="def open_device(index): return index")
    assert told(Registry().resolve, "alpha") == (
        "backend 'alpha' (singa-alpha 1.2): init: toy_alpha.device:open_device gave int, "
        "expected a singa_core Device"
    )


def test_an_error_has_its_cause(installed):
    installed("alpha", opener="raise OSError('broken')")
    with pytest.raises(PluginError) as e:
        Registry().resolve("alpha")
    assert isinstance(e.value.__cause__, OSError)
    assert (e.value.plugin, e.value.stage) == ("alpha", "import")


def test_a_manifest_that_failed_is_not_imported_again(installed, tmp_path):
    tally = tmp_path / "tally"
    text = f"""
    with open({str(tally)!r}, "a") as file:
        file.write("x")
    raise ValueError("no")
    """
    installed("alpha", manifest=textwrap.dedent(text))
    registry = Registry()
    texts = {told(registry.manifest, "alpha") for _ in range(3)}
    assert texts == {
        "backend 'alpha' (singa-alpha 1.2): manifest: "
        "import of toy_alpha:manifest raised ValueError: no"
    }
    assert tally.read_text() == "x"


def test_a_failure_that_is_remembered_keeps_no_caller_alive(installed):
    installed("alpha", manifest="manifest = None")
    registry = Registry()

    class Big:
        pass

    def caller():
        big = Big()
        refs.append(weakref.ref(big))
        with pytest.raises(PluginError):
            registry.manifest("alpha")

    refs = []
    caller(), caller()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


EXIT = "raise SystemExit('no licence')"


@pytest.mark.parametrize(
    ("values", "expected"),
    [({"manifest": EXIT}, "manifest: import of toy_alpha:manifest raised SystemExit: no licence"),
     ({"probe": "__import__('sys').exit('no licence')"},
      "probe: not usable here: probe raised SystemExit: no licence; it must not raise"),
     ({"opener": EXIT}, "import: import of toy_alpha.device:open_device raised SystemExit: no licence"),
     ({"opener": f"def open_device(index): {EXIT}"},
      "init: toy_alpha.device:open_device(0) raised SystemExit: no licence")],
    ids=["manifest", "probe", "import", "init"],
)  # fmt: skip
def test_a_backend_that_ends_the_process_is_a_broken_backend(installed, values, expected):
    installed("alpha", priority=120, device_type="host", **values)
    installed("beta", priority=119, device_type="host")
    registry = Registry()
    assert told(registry.resolve, "alpha") == f"backend 'alpha' (singa-alpha 1.2): {expected}"
    assert registry.resolve("beta").backend == "far"


@pytest.mark.parametrize("values", [{"manifest": "raise KeyboardInterrupt"},
                                    {"probe": "(_ for _ in ()).throw(KeyboardInterrupt)"},
                                    {"opener": "raise KeyboardInterrupt"}])  # fmt: skip
def test_an_interrupt_while_a_backend_loads_is_the_user_s(installed, values):
    installed("alpha", **values)
    with pytest.raises(KeyboardInterrupt):
        Registry().resolve("alpha")


# -- which device a name means ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "index"), [("alpha", 2), ("alpha:2", 2), ("alpha:99", 99)])
def test_an_index_beyond_the_devices_there_are(installed, name, index):
    installed("alpha")
    registry = Registry()
    call = registry.device if ":" not in name else lambda n, i: registry.resolve(n)
    assert told(call, name, index, error=DeviceError) == (
        f"device alpha:{index}: needs 0 <= index < 2, got {index}\n"
        "try: singa devices alpha (it has 2 devices)"
    )


@pytest.mark.parametrize(
    "name", ["", ":1", "alpha:", "alpha:one", "alpha:-1", "a:1:2", "a: 1", 3, b"a"]
)
def test_what_is_no_device_name(name):
    assert told(Registry().resolve, name, error=DeviceError) == (
        f"device: needs a name like '<backend>' or '<backend>:1', got {name!r}"
    )


def test_the_default_is_the_host_backend_of_highest_priority(installed, monkeypatch):
    monkeypatch.delenv("SINGA_DEVICE", raising=False)
    installed("low", device_type="host", priority=98)
    high = installed("high", device_type="host", priority=99)
    installed("gpu", priority=100)
    registry = Registry()
    device = registry.resolve()
    assert sys.modules[f"{high}.device"].opened == [0]
    assert registry.resolve("cpu") is device
    assert registry.resolve("cpu:1") is registry.resolve("high:1")
    assert "toy_low.device" not in sys.modules
    assert "toy_gpu.device" not in sys.modules


def test_equal_priorities_go_by_name(installed, monkeypatch):
    monkeypatch.delenv("SINGA_DEVICE", raising=False)
    installed("beta", device_type="host", priority=99)
    installed("alpha", device_type="host", priority=99)
    registry = Registry()
    assert registry.resolve() is registry.resolve("alpha")


def test_the_default_host_is_not_probed_until_it_is_opened(installed):
    marker = "__import__('sys').modules.__setitem__('toy_probed', 1) or " + USABLE
    installed("low", device_type="host", priority=98, probe=marker)
    installed("high", device_type="host", priority=99)
    Registry().resolve("cpu")
    assert "toy_probed" not in sys.modules


def test_the_environment_replaces_the_default_and_nothing_else(installed, monkeypatch):
    installed("alpha")
    installed("beta", device_type="host", priority=99)
    registry = Registry()
    monkeypatch.setenv("SINGA_DEVICE", "alpha:1")
    assert registry.resolve() is registry.resolve("alpha:1")
    assert registry.resolve("cpu") is registry.resolve("beta")
    monkeypatch.setenv("SINGA_DEVICE", "")
    assert registry.resolve() is registry.resolve("beta")
    monkeypatch.setenv("SINGA_DEVICE", "gamma")
    told(registry.resolve, None, error=BackendNotFound)


def test_gpu_is_the_first_usable_one_that_is_not_the_host(installed):
    installed("one", priority=103, probe="Probe(False, 'no driver')")
    installed("two", priority=102)
    installed("three", priority=101)
    installed("host", device_type="host", priority=104)
    registry = Registry()
    assert registry.resolve("gpu") is registry.resolve("two")
    assert registry.resolve("gpu:1") is registry.resolve("two:1")
    assert "toy_three.device" not in sys.modules
    assert registry.resolve("auto") is registry.resolve("host")


def test_gpu_counts_no_device_that_is_a_cpu(alone, installed):
    installed("chips", priority=9, probe="Probe(True, '', 3, ('cpu', 'gpu', 'accelerator'))")
    installed("cpus", priority=10, probe="Probe(True, '', 1, ('cpu',))")
    registry = Registry()
    assert registry.resolve("gpu") is registry.resolve("chips:1")
    assert registry.resolve("gpu:1") is registry.resolve("chips:2")
    assert told(registry.resolve, "gpu:2", error=DeviceError) == (
        "device gpu:2: needs 0 <= index < 2, got 2\ntry: singa devices chips (it has 2 devices)"
    )
    assert registry.resolve("auto") is registry.resolve("cpus")


def test_a_gpu_where_there_are_cpus_only_is_refused(alone, installed):
    installed("opencl", probe="Probe(True, '', 1, ('cpu',))")
    assert told(Registry().resolve, "gpu", error=BackendNotFound) == (
        "backend 'gpu': opencl (its devices are CPUs; 'opencl' means them)\n"
        "try: singa doctor"  # it is installed
    )


def test_auto_probes_from_the_top_and_stops_at_the_first_usable(installed):
    order = "__import__('sys').modules.setdefault('toy_order', []).append({!r}) or " + USABLE
    no = "__import__('sys').modules.setdefault('toy_order', []).append({!r}) or Probe(False, 'no')"
    installed("a", priority=101, probe=order.format("a"))
    installed("b", priority=103, probe=no.format("b"))
    installed("c", priority=102, probe=order.format("c"))
    Registry().resolve("auto")
    assert sys.modules["toy_order"] == ["b", "c"]


def test_no_gpu_says_what_was_refused_and_what_is_broken(alone, installed, monkeypatch):
    installed("one", priority=2, probe="Probe(False, 'no driver')")
    installed("two", priority=1, probe="1 / 0")
    installed("three", manifest="raise ValueError('bad wheel')")
    registry = Registry()
    assert told(registry.resolve, "gpu", error=BackendNotFound) == (
        "backend 'gpu': one (no driver); "
        "two (probe raised ZeroDivisionError: division by zero; it must not raise); "
        "broken: three (import of toy_three:manifest raised ValueError: bad wheel)\n"
        f"try: {install_hint(next(iter(known_distributions('gpu'))))}"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [(None, "no usable host backend"), ("cpu", "no usable host backend"),
     ("gpu", "no backend of this kind"), ("auto", "no backend of this kind")],
)  # fmt: skip
def test_nothing_installed(nothing_installed, monkeypatch, name, reason):
    monkeypatch.delenv("SINGA_DEVICE", raising=False)
    kind = "gpu" if name == "gpu" else "host"
    assert told(Registry().resolve, name, error=BackendNotFound) == (
        f"backend {name or 'cpu'!r}: {reason}\n"
        f"try: {install_hint(next(iter(known_distributions(kind))))}"
    )


# -- nobody disturbs anybody ------------------------------------------------------------------------


def test_a_broken_backend_does_not_stand_in_the_way(installed):
    installed("one", priority=110, manifest="raise ValueError('no')")
    installed("two", priority=109, api=(9, 9))
    installed("three", priority=108, manifest="manifest = 3")
    installed("four", priority=107, distribution="a-four")
    installed("four", priority=107, distribution="b-four")
    installed("five", priority=106, probe="1 / 0")
    installed("six", priority=105, device_type="host")
    registry = Registry()
    device = registry.resolve("six")
    assert registry.resolve("auto") is registry.resolve("cpu") is device


def test_a_backend_that_was_not_asked_for_is_not_touched(installed):
    trap = installed("trap", manifest="raise SystemExit('touched')")
    module = installed("alpha")
    registry = Registry()
    registry.resolve("alpha")
    told(registry.resolve, "nobody", error=BackendNotFound)
    registry.refresh()
    assert "trap" in registry.names()
    assert trap not in sys.modules
    assert module in sys.modules


def in_a_process(code, **env):
    """Standard output of a fresh Python."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(
        command, env=os.environ | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_in_a_fresh_process_nothing_but_the_chosen_one_is_imported(installed, tmp_path):
    installed("trap", manifest="raise SystemExit('touched')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    code = """
    import sys
    from singa_core.registry import registry
    assert "importlib_metadata" not in sys.modules, "scanned at import"
    device = registry.resolve("cpu_numpy")
    touched = [m for m in sys.modules if m.startswith(("toy_", "far"))]
    print(device, touched)
    """
    assert in_a_process(code, PYTHONPATH=path) == "cpu_numpy []"


def test_in_a_fresh_process_without_a_backend_the_first_device_says_what_to_install():
    code = """
    import importlib_metadata
    importlib_metadata.entry_points = lambda **_: []
    import singa_core
    try:
        singa_core.tensor([1.0])
    except singa_core.errors.BackendNotFound as error:
        print(error)
    """
    assert in_a_process(code, SINGA_DEVICE="") == (
        "backend 'cpu': no usable host backend\n"
        "try: pip install ./backends/cpu_numpy in a checkout "
        "(pip install singa-cpu-numpy once released)"
    )


# -- registering, forgetting, looking again ---------------------------------------------------------


def toy_manifest(name="made_here", **values):
    default = {
        "name": name, "api": (1, 0), "device_type": "gpu", "probe": lambda: Probe(True),
        "open": "far.device:FarDevice",
    }  # fmt: skip
    return Manifest(**(default | values))


def test_a_backend_of_this_process():
    registry = Registry()
    before = registry.names()
    registry.register(toy_manifest())
    assert registry.names() == tuple(sorted((*before, "made_here")))
    device = registry.resolve("made_here")
    assert isinstance(device, Device)
    assert registry.resolve("made_here") is device
    registry.unregister("made_here")
    assert registry.names() == before
    told(registry.resolve, "made_here", error=BackendNotFound)
    registry.unregister("made_here")  # harmless
    registry.unregister("never heard of")


def test_a_registered_backend_is_checked_at_once():
    registry = Registry()
    text = told(registry.register, toy_manifest(api=(7, 1)))
    assert text == (
        "backend 'made_here': handshake: written for interface 7.1, this singa-core speaks 1.0\n"
        "try: pip install --upgrade singa-core"
    )
    text = told(registry.register, "made_here")
    assert text == (
        "backend 'made_here': manifest: expected a singa_core.registry.Manifest, got str"
    )
    text = told(registry.register, toy_manifest(probe=None))
    assert text == "backend 'made_here': manifest: expected a callable probe in the Manifest"
    assert "made_here" not in registry.names()


def test_a_registered_backend_hides_an_installed_namesake(installed):
    module = installed("alpha")
    registry = Registry()
    registry.register(toy_manifest("alpha"))
    registry.resolve("alpha")
    assert module not in sys.modules
    registry.unregister("alpha")
    registry.resolve("alpha")
    assert module in sys.modules


def test_a_new_distribution_is_seen_after_refresh(installed):
    registry = Registry()
    assert "late" not in registry.names()
    installed("late")
    assert "late" not in registry.names()
    registry.refresh()
    registry.resolve("late")


def test_open_devices_stay_the_same_whatever_comes_and_goes(installed):
    installed("alpha")
    registry = Registry()
    registry.register(toy_manifest("made_here"))
    device, toy = registry.resolve("alpha"), registry.resolve("made_here")
    registry.register(toy_manifest("other"))
    registry.unregister("other")
    registry.refresh()
    assert registry.resolve("alpha") is device
    assert registry.resolve("made_here") is toy


def test_what_failed_gets_another_chance_after_refresh(installed, tmp_path):
    module = installed("alpha", manifest="raise ValueError('no')")
    registry = Registry()
    told(registry.resolve, "alpha")
    text = GOOD.format(
        called="alpha", api=(1, 0), device_type="gpu", probe=USABLE, open="far.device:FarDevice",
        priority=0,
    )  # fmt: skip
    path = tmp_path / module / "__init__.py"
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1, 1))  # another time than that of the compiled one
    told(registry.resolve, "alpha")
    registry.refresh()
    registry.resolve("alpha")


def test_two_threads_open_one_device(installed):
    slow = "import time\n" + OPENER.replace("opened.append", "time.sleep(0.05); opened.append")
    module = installed("alpha", opener=slow)
    registry, found = Registry(), []
    threads = [
        threading.Thread(target=lambda: found.append(registry.resolve("alpha"))) for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({id(d) for d in found}) == 1
    assert sys.modules[f"{module}.device"].opened == [0]


def test_the_names_of_known_backends_are_those_of_their_distributions():
    for name, asked in known_distributions().items():
        distribution, _, extra = asked.partition("[")
        assert distribution.removeprefix("singa-").replace("-", "_") == name
        folder = Path(__file__).resolve().parent.parent / "backends" / name  # as the hint says
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        assert project["name"] == distribution
        assert not extra or extra.rstrip("]") in project["optional-dependencies"]


# -- what a manifest and a probe may say ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "a:b", "cpu", "gpu", "auto", "a b", None, 3, ("x",)])
def test_names_that_no_device_name_could_mean_are_refused(name):
    registry = Registry()
    manifest = Manifest(name, (1, 0), "gpu", lambda: Probe(True), "toy.device:open_device")
    text = told(registry.register, manifest)
    assert ": manifest: expected a name of letters, digits, . _ - and no alias" in text
    assert text.endswith(f"got {name!r}")


@pytest.mark.parametrize("offered", ["cpu", "a:b"])
def test_an_installed_backend_of_such_a_name_disturbs_nobody(installed, alone, offered):
    installed("alpha", device_type="host")
    installed("odd", called=offered)
    registry = Registry()
    assert registry.resolve("cpu").name == "far"  # what alpha opens
    assert "odd" in told(registry.manifest, "odd")


@pytest.mark.parametrize(
    "probe", ["Probe(True, '', '2')", "Probe(True, '', -1)", "Probe(True, '', 1.5)",
              "Probe(True, '', None)", "Probe('yes')", "Probe(1)", "Probe(True, '', True)"],
)  # fmt: skip
def test_a_probe_of_odd_numbers_is_told_and_disturbs_nobody(installed, alone, probe):
    installed("alpha", probe=probe, priority=9)
    installed("beta")
    registry = Registry()
    text = told(registry.device, "alpha")
    assert "backend 'alpha' (singa-alpha 1.2): probe: not usable here: probe gave Probe(" in text
    assert "an integer device_count >= 0" in text
    assert registry.resolve("gpu").name == "far"  # beta's


@pytest.mark.parametrize("kinds", ["'gpu'", "('gpu',)", "(1, 2)", "None"])
def test_a_probe_of_odd_kinds_is_told(installed, alone, kinds):
    installed("alpha", probe=f"Probe(True, '', 2, {kinds})")
    text = told(Registry().device, "alpha")
    assert "expected kinds to be a tuple of a word for each device, or of none" in text


@pytest.mark.parametrize(
    ("manifest", "stage"),
    [
        ("raise SystemExit(3)", "manifest"),
        ("raise KeyError('x')", "manifest"),
        (GOOD.replace("lambda: {probe}", "lambda: exit(3)"), "probe"),
    ],
)
def test_leaving_the_process_is_an_error_of_the_stage(installed, alone, manifest, stage):
    values = {"called": "alpha", "api": (1, 0), "device_type": "gpu", "probe": "", "priority": 9}
    text = (
        manifest.format(**values, open="toy_alpha.device:open_device")
        if "{" in manifest
        else manifest
    )
    installed("alpha", manifest=text)
    installed("beta")
    registry = Registry()
    error = told(registry.device, "alpha")
    assert f"backend 'alpha' (singa-alpha 1.2): {stage}: " in error
    assert re.search("SystemExit: 3|KeyError: 'x'", error)
    assert registry.resolve("gpu").name == "far"


@pytest.mark.parametrize("where", ["import", "init"])
def test_an_interrupt_passes_and_the_next_try_works(installed, alone, where, monkeypatch):
    raising = "import builtins\nif not hasattr(builtins, 'toy_tried'):\n    builtins.toy_tried = 1\n    raise KeyboardInterrupt\n"
    opener = raising + OPENER
    if where == "init":
        opener = OPENER.replace(
            "    opened.append", textwrap.indent(raising, "    ") + "    opened.append"
        )
    monkeypatch.delattr(builtins, "toy_tried", raising=False)
    installed("alpha", opener=opener)
    registry = Registry()
    with pytest.raises(KeyboardInterrupt):
        registry.device("alpha")
    try:
        assert registry.device("alpha").name == "far"
    finally:
        del builtins.toy_tried
