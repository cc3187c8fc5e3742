"""The command `singa`: what it prints, its exit status, and that no bad plugin ends it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import toys
from singa_core import offers
from singa_core.cli import main

TESTS = str(Path(__file__).parents[1])  # where `far` lives
SEGFAULT = "__import__('ctypes').string_at(0)"
SLEEP = "__import__('time').sleep(1000)"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder on the import path, for toys; of what else is installed one backend is seen."""

    def seen(group):
        return [p for p in found(group) if p.value.startswith(("toy_", "singa_cpu_numpy"))]

    found = offers.entry_points
    monkeypatch.setattr(offers, "entry_points", seen)
    monkeypatch.syspath_prepend(TESTS)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("SINGA_DEVICE", "SINGA_TEST_DEVICES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def run(capsys):
    """A function that runs the command: (exit status, output, errors)."""

    def run(*args):
        status = main(args)
        out, err = capsys.readouterr()
        for line in (out + err).splitlines():
            assert len(line) <= 80 or "--json" in args, line
        assert "Traceback" not in out + err
        return status, out, err

    return run


def of(report, name):
    """What a report says of one backend or plugin."""
    (found,) = (f for f in report["backends"] + report.get("plugins", []) if f["name"] == name)
    return found


# -- arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "told"),
    [([], "the following arguments are required: COMMAND"),
     (["devises"], "invalid choice: 'devises'"),
     (["devices", "--timeout", "0"], "argument --timeout: needs seconds > 0, got '0'"),
     (["doctor", "--timeout", "soon"], "argument --timeout: needs seconds > 0, got 'soon'"),
     (["doctor", "--colour"], "unrecognized arguments: --colour")],
)  # fmt: skip
def test_a_command_that_is_not_understood(capsys, args, told):
    with pytest.raises(SystemExit) as e:
        main(args)
    assert e.value.code == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.startswith("usage: singa")


@pytest.mark.parametrize("args", [["--help"], ["devices", "--help"], ["doctor", "-h"]])
def test_help_names_the_exit_status_and_fits(capsys, args):
    with pytest.raises(SystemExit) as e:
        main(args)
    assert e.value.code == 0
    out = capsys.readouterr().out
    assert "exit status:\n  0  all is well" in out
    assert max(map(len, out.splitlines())) <= 80


def test_conformance_has_options_of_its_own(capsys):
    with pytest.raises(SystemExit) as e:
        main(["conformance", "--help"])
    assert e.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: singa conformance")
    assert "--level {core,train,graph,full}" in out
    with pytest.raises(SystemExit) as e:
        main(["conformance"])
    assert e.value.code == 2
    assert "give one backend: NAME or --singa-backend NAME" in capsys.readouterr().err


def test_the_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == "singa-core 0.1.0\n"


def command(*args, **env):
    return subprocess.run(
        [sys.executable, "-m", "singa_core", *args], env=os.environ | env, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def test_as_a_process():
    done = command("devices", "cpu_numpy", SINGA_DEVICE="")
    assert (done.returncode, done.stderr) == (0, "")
    assert "cpu_numpy  host" in done.stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [("nope", "backend 'nope': no such backend; installed: "),
     ("cpu_numpy:7", "device cpu_numpy:7: needs 0 <= index < 1, got 7"),
     ("nomodule:manifest", "backend 'nomodule': manifest: nomodule:manifest: ModuleNotFoundError: ")],
)  # fmt: skip
def test_conformance_of_what_cannot_be_opened_is_one_line(name, told):
    done = command("conformance", name)
    assert done.returncode == 4
    assert done.stderr.startswith(f"ERROR: {told}")
    assert "Traceback" not in done.stdout + done.stderr
    assert len((done.stdout + done.stderr).strip().splitlines()) <= 2


def test_nothing_of_a_closed_pipe_is_told():
    line = f"{sys.executable} -m singa_core --help | true"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


# -- devices ----------------------------------------------------------------------------------------


def test_devices(folder, run):
    toys.backend(folder, "alpha", probe="Probe(True, '', 2)", priority=30)
    toys.backend(folder, "beta", probe="Probe(False, 'no driver (libtoy.so.1 not found)')")
    toys.backend(folder, "gamma", manifest="raise OSError('libtoy.so.1: wrong version')")
    status, out, err = run("devices")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0].split() == [
        "device", "type", "memory", "element", "types", "offered", "by"
    ]  # fmt: skip
    assert "   alpha      gpu   ?" in lines[1]
    assert lines[1].endswith("no bfloat16    singa-alpha 1.2")
    assert lines[2].startswith("   alpha:1    gpu ")
    assert lines[3].startswith("*  cpu_numpy  host ")
    assert lines[4:] == [
        "",
        "not usable here",
        "  beta: no driver (libtoy.so.1 not found)",
        "  gamma: manifest: import of toy_gamma:manifest raised OSError: libtoy.so.1:",
        "      wrong version",
        "",
        "* default: cpu_numpy;  cpu = cpu_numpy, gpu = alpha, auto = alpha",
    ]


def test_devices_by_name_touches_these_only(folder, run):
    toys.backend(folder, "alpha")
    trap = folder / "touched"
    toys.backend(folder, "trap", manifest=f"open({str(trap)!r}, 'w')")
    status, out, _ = run("devices", "alpha")
    assert status == 0
    assert run("devices", "alpha:0") == (0, out, "")
    assert run("devices", "alpha:x")[2].startswith("singa: device: needs a name like '<backend>'")
    assert "alpha" in out
    assert "cpu_numpy" not in out
    assert not trap.exists()


def test_devices_a_name_that_nobody_has(folder, run):
    toys.backend(folder, "alpha")
    status, out, err = run("devices", "alhpa")
    assert (status, out) == (1, "")
    assert err.startswith("singa: backend 'alhpa': no such backend; installed: alpha, cpu_numpy")
    assert err.endswith("\n  try: 'alpha'\n")


def test_devices_says_what_a_device_is_and_that_a_cpu_is_no_gpu(folder, run, monkeypatch):
    opener = toys.OPENER.format(name="alpha").replace(
        "    return device", "    device.driver = 'toylib 7, a chip'\n    return device"
    )
    toys.backend(folder, "alpha", probe="Probe(True, '', 2, ('gpu', 'cpu'))", opener=opener)
    toys.backend(folder, "beta", probe="Probe(True, '', 1, ('cpu',))", priority=30)
    lines = run("devices")[1].splitlines()
    assert [line.split()[:2] for line in lines[1:7:2]] == [
        ["alpha", "gpu"], ["alpha:1", "cpu"], ["beta", "cpu"]
    ]  # fmt: skip
    assert lines[2] == lines[4] == "     toylib 7, a chip"
    assert lines[-1] == "* default: cpu_numpy;  cpu = cpu_numpy, gpu = alpha, auto = beta"
    monkeypatch.setenv("SINGA_DEVICE", "gpu:1")
    status, out, _ = run("devices")
    assert status == 1
    assert out.endswith(
        "WRONG  SINGA_DEVICE: there is no device 'gpu:1'\n"
        "       try: one of alpha, alpha:1, beta, cpu_numpy\n"
    )


DEFAULTS = {  # SINGA_DEVICE: what is wrong with it
    "nonsense": "there is no backend 'nonsense'",
    "ALPHA": "there is no backend 'ALPHA' try: 'alpha'",
    "alpha:1": "there is no device 'alpha:1' try: one of alpha, cpu_numpy",
    "alpha:x": "needs a name like '<backend>' or '<backend>:1', got 'alpha:x'",
    "beta": "'beta' is not usable here: no driver",
}


@pytest.mark.parametrize("command", ["devices", "doctor"])
@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_device_that_is_not_there_is_wrong(folder, run, monkeypatch, command, name):
    toys.backend(folder, "alpha")
    toys.backend(folder, "beta", probe="Probe(False, 'no driver')")
    assert run(command)[0] == 0  # nobody asked for beta
    monkeypatch.setenv("SINGA_DEVICE", name)
    status, out, _ = run(command)
    assert status == 1
    assert f"WRONG SINGA_DEVICE: {DEFAULTS[name]}" in " ".join(out.split())
    told = json.loads(run(command, "--json")[1])
    (problem,) = told["problems"] if command == "doctor" else [told["problem"]]
    assert problem["stage"] == "SINGA_DEVICE"
    if command == "devices":
        assert "* default (SINGA_DEVICE): none; " in out


def test_doctor_judges_what_was_named(folder, run):
    toys.backend(folder, "absent", probe="Probe(False, 'no driver')")
    assert run("doctor", "absent") == (
        1,
        "backends\n  WRONG  absent (singa-absent 1.2): probe: not usable here: no driver\n"
        "\n1 wrong\n",
        "",
    )
    status, out, _ = run("doctor")
    assert status == 0
    assert "  no     absent (singa-absent 1.2): not usable here: no driver\n" in out


def test_devices_that_was_named_and_cannot_be_used(folder, run):
    toys.backend(folder, "beta", probe="Probe(False, 'no driver')")
    assert run("devices", "beta") == (1, "not usable here\n  beta: no driver\n", "")


def test_devices_as_json(folder, run, monkeypatch):
    toys.backend(folder, "alpha", probe="Probe(True, '', 2)")
    monkeypatch.setenv("SINGA_DEVICE", "alpha:1")
    status, out, _ = run("devices", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["default"] == "alpha:1"
    assert found["aliases"] == {"cpu": "cpu_numpy", "gpu": "alpha", "auto": "cpu_numpy"}
    alpha = found["backends"][0]
    assert [device["name"] for device in alpha["devices"]] == ["alpha", "alpha:1"]
    assert (alpha["usable"], alpha["reason"]) == (True, None)


# -- doctor -----------------------------------------------------------------------------------------


def test_doctor_of_a_sound_installation(folder, run):
    toys.pack(folder, "extra", PACK.format(name="toy_one"))
    status, out, err = run("doctor")
    assert (status, err) == (0, "")
    assert out.startswith("singa-core 0.1.0 (interface 1.0 for backends, 1.0 for plugins)\n")
    assert "\nBLAS of NumPy: " in out
    assert "\n  ok     cpu_numpy (singa-cpu-numpy 0.1.0)\n" in out
    assert "\n  ok     extra (singa-extra 1.2)\n         operations toy_one\n" in out
    assert out.endswith("\nall is well\n")


PACK = """
from singa_core.operation import Operation
from singa_core.plugins import hookimpl
singa_api = (1, 0)
class One(Operation):
    name = "{name}"
    def infer(self, x):
        return x
    def forward(self, x):
        return x + 1.0
one = One()
@hookimpl
def singa_register_ops(ops):
    ops.add(one)
"""
CRASH_IN_OPEN = f"def open_device(index):\n    {SEGFAULT}\n"
WRONG = toys.OPENER.format(name="wrong") + (
    "    look = device._look\n"
    "    device._look = lambda handle: look(handle) * 1 if handle.shape == (3,) else look(handle)\n"
    "    return device\n"
)
WRONG = WRONG.replace("    return device\n    look", "    look")
PROBLEMS = {  # name: (files, stage, what is told)
    "segv": ({"manifest": SEGFAULT}, "manifest", "crashed with signal 11 (SIGSEGV) in "),
    "segp": ({"probe": SEGFAULT}, "probe", "crashed with signal 11 (SIGSEGV) in ctypes/__init__.py"),
    "sego": ({"opener": CRASH_IN_OPEN}, "open sego", "crashed with signal 11 (SIGSEGV) in ctypes"),
    "leave": ({"probe": "__import__('os')._exit(3)"}, "probe", "ended the process with status 3"),
    "exits": ({"manifest": "raise SystemExit('no licence')"}, "manifest",
              "import of toy_exits:manifest raised SystemExit: no licence"),
    "raises": ({"opener": "raise OSError('libtoy.so.1')"}, "import",
               "import of toy_raises.device:open_device raised OSError: libtoy.so.1"),
    "newer": ({"api": (2, 0)}, "handshake",
              "written for interface 2.0, this singa-core speaks 1.0"),
    "noise": ({"manifest": "print('{{\"at\": \"noise\"}}' * 9)\nraise ValueError('loud')"},
              "manifest", "import of toy_noise:manifest raised ValueError: loud"),
    "wrong": ({"opener": WRONG}, "compute on wrong", "a small computation gave ["),
}  # fmt: skip


def test_doctor_tells_of_whatever_is_wrong_and_goes_on(folder, run):
    for name, (files, _, _) in PROBLEMS.items():
        toys.backend(folder, name, **files)
    toys.backend(folder, "good")
    toys.backend(folder, "absent", probe="Probe(False, 'no driver')")
    for owner in ("one", "other"):
        toys.backend(folder, "twins", distribution=f"singa-{owner}")
    status, out, _ = run("doctor", "--json", *PROBLEMS, "good", "absent", "twins")
    report = json.loads(out)
    assert (status, report["ok"]) == (1, False)
    for name, (_, stage, told) in PROBLEMS.items():
        problem = of(report, name)["problem"]
        assert (name, problem["stage"]) == (name, stage)
        assert told in problem["reason"]
    assert of(report, "good")["problem"] is None
    assert [d["name"] for d in of(report, "good")["devices"]] == ["good"]
    assert of(report, "absent")["why_not"] == "probe: not usable here: no driver"
    assert of(report, "newer")["problem"]["advice"] == "pip install --upgrade singa-core"
    twins = of(report, "twins")["problem"]
    assert twins["stage"] == "metadata"
    assert twins["reason"] == "offered by 2 distributions: singa-one 1.2, singa-other 1.2"
    assert "pip uninstall singa-segv" in of(report, "segv")["problem"]["advice"]


def test_doctor_gives_up_on_one_that_hangs(folder, run):
    """With a child of its own that would keep a pipe open."""
    probe = f"__import__('subprocess').Popen(['sleep', '1000']) and {SLEEP}"
    toys.backend(folder, "hangs", probe=probe)
    for seconds in (5, 15, 45):  # a busy machine may not even come as far in the first
        status, out, _ = run("doctor", "hangs", "--timeout", str(seconds))
        if "hangs (singa-hangs 1.2): probe:" in out:
            break
    assert status == 1
    text = " ".join(out.split())
    assert f"probe: was still at it after {seconds} s, and was stopped" in text
    assert (
        "try: --timeout S waits longer; pip uninstall singa-hangs takes it out of the way" in text
    )


def test_an_interrupt_ends_the_doctor_and_the_patients(folder):
    mark = folder / "patient"
    probe = f"open({str(mark)!r}, 'w').write(str(__import__('os').getpid())) and {SLEEP}"
    toys.backend(folder, "hangs", probe=probe)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "singa_core", "doctor", "hangs", "--timeout", "600"]
    doctor = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if mark.exists() and mark.read_text():
            break
        time.sleep(0.1)
    doctor.send_signal(signal.SIGINT)
    _, err = doctor.communicate(timeout=60)
    assert (doctor.returncode, err) == (130, "singa: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_doctor_bears_what_json_does_not_know(folder, run):
    opener = toys.OPENER.format(name="odd") + "    return device\n"
    opener = opener.replace(
        "    return device\n    return device\n",
        "    import dataclasses, numpy\n"
        "    device.capabilities = dataclasses.replace(\n"
        "        device.capabilities, capacity=numpy.int64(2**31))\n"
        "    device.driver = 'toylib 7'\n"
        "    return device\n",
    )
    slow = "__import__('time').sleep(1.1) or Probe(True, '', numpy.int64(1))"
    manifest = "import numpy\n" + toys.MANIFEST
    toys.backend(folder, "odd", manifest=manifest, probe=slow, opener=opener)
    status, out, _ = run("doctor", "odd")
    assert status == 0, out
    assert "odd (gpu): 2.0 GiB, element types no bfloat16" in out
    assert "\n           driver: toylib 7\n" in out
    assert "its probe took 1." in out


def test_doctor_in_words(folder, run):
    toys.backend(folder, "newer", api=(2, 0))
    toys.backend(folder, "absent", probe="Probe(False, 'no driver')")
    status, out, _ = run("doctor", "newer", "absent")
    assert status == 1
    assert out == (
        "backends\n"
        "  WRONG  absent (singa-absent 1.2): probe: not usable here: no driver\n"
        "  WRONG  newer (singa-newer 1.2): handshake: written for interface 2.0, this\n"
        "         singa-core speaks 1.0\n"
        "         try: pip install --upgrade singa-core\n"
        "\n"
        "2 wrong\n"
    )


def test_doctor_of_plugins(folder, run):
    toys.pack(folder, "one", PACK.format(name="toy_one"))
    toys.pack(folder, "second", PACK.format(name="toy_one"))
    toys.pack(folder, "broken", "import toy_library_that_is_missing")
    toys.pack(folder, "crash", SEGFAULT)
    status, out, _ = run("doctor", "--json", "one", "second", "broken", "crash")
    report = json.loads(out)
    assert status == 1
    assert of(report, "one")["pack"]["ops"] == ["toy_one"]
    assert of(report, "broken")["problem"]["stage"] == "import"
    assert "SIGSEGV" in of(report, "crash")["problem"]["reason"]
    assert of(report, "second")["problem"] is None  # alone it is sound
    (together,) = report["problems"]
    assert together["stage"] == "plugins together"
    assert "a name of its own for each operation, 'toy_one'" in together["reason"]


def test_doctor_sees_what_pip_has_left(folder, run):
    toys.backend(folder, "old", requires=["singa-core==0.0.9", "numpy"])
    toys.backend(folder, "twice")
    again = folder / "again"
    again.mkdir()
    sys.path.append(str(again))
    try:
        toys.write(again, "none", {}, "singa.nothing", "x", distribution="singa-twice")
        status, out, _ = run("doctor")
    finally:
        sys.path.remove(str(again))
    text = " ".join(out.split())
    assert status == 1
    assert (
        "WRONG versions: singa-old 1.2 is made for singa-core 0.0.9, this is 0.1.0 "
        "try: pip install --upgrade singa-core singa-old" in text
    )
    assert "WRONG distributions: singa-twice is installed 2 times on the import path" in text
    assert text.endswith("2 wrong")


def test_doctor_a_distribution_of_layers_alone(run, tmp_path, monkeypatch):
    for name, points in (
        ("singa-my-gates", ""),
        ("singa-my-others", "[singa.plugins]\nothers = o"),
    ):
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    status, _, err = run("doctor", "my_gates")
    assert status == 1
    told = (
        "got my_gates, a distribution without an entry point (singa-my-gates) try: its own tests; "
    )
    assert told in " ".join(err.split())
    _, _, err = run("doctor", "my_others")  # it has one, under another name
    assert "without an entry point" not in err


def test_doctor_a_name_that_nobody_has(run):
    status, out, err = run("doctor", "cpu_nunpy")
    assert (status, out) == (1, "")
    assert err.startswith("singa: doctor: needs the name of a backend or plugin (")
    assert err.endswith("got cpu_nunpy\n  try: cpu_numpy\n")
