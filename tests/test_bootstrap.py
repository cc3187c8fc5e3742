"""What the bootstrap decides, without a network and without making environments."""

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
import time
import tomllib
from pathlib import Path

import pytest

import bootstrap
import require_python

ROOT = Path(__file__).resolve().parent.parent
PROJECT = """
[project]
name = "x"
dependencies = ["numpy"]
[project.optional-dependencies]
data = ["some-data>=1"]
dev = ["oracle==2"]
[dependency-groups]
test = ["runner==3"]
[tool.ruff]
line-length = 100
"""


@pytest.fixture
def root(tmp_path):
    """A checkout with the core and its backends."""
    chosen = [place.partition("[")[0] for place in bootstrap.CHOSEN.values()]
    for folder in (".", *bootstrap.BACKENDS, *chosen):
        add_project(tmp_path, folder)
    return tmp_path


def add_project(root, folder, text=PROJECT):
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / "pyproject.toml").write_text(text, encoding="utf-8")


@pytest.fixture
def installed(monkeypatch):
    """Records what would be installed; `installed.refuses` names sets that pip cannot have."""

    class Recorder(list):
        refuses = ()

    record = Recorder()

    def run_logged(command, log, cwd=None):
        log.write_text("line 1\nno such package\n", encoding="utf-8")
        if command[1:3] == ["-m", "venv"]:
            record.append("venv")
            python = bootstrap.venv_python(Path(command[3]))
            python.parent.mkdir()
            python.touch()
            return 0
        name = next(name for name in bootstrap.FOR_TESTS if asks_for(cwd, name, command))
        record.append(name)
        return int(name in record.refuses)

    def asks_for(root, name, command):
        return bootstrap.requirements(root, name) == command[command.index("install") + 1 :]

    monkeypatch.setattr(bootstrap, "run_logged", run_logged)
    return record


def start(root, sets, installed):
    """What one start installs."""
    del installed[:]
    bootstrap.ensure_environment(root, sets)
    return list(installed)


# --- when to install what ---------------------------------------------------------------------


def test_a_second_start_installs_nothing(root, installed):
    assert start(root, bootstrap.FOR_EXAMPLES, installed) == ["venv", "core", "data"]
    assert start(root, bootstrap.FOR_EXAMPLES, installed) == []


def test_more_sets_are_added_to_what_is_there(root, installed):
    start(root, bootstrap.FOR_EXAMPLES, installed)
    assert start(root, bootstrap.FOR_TESTS, installed) == ["test", "opencl", "dev"]
    assert start(root, bootstrap.FOR_EXAMPLES, installed) == []


def test_a_changed_dependency_is_installed_into_the_same_environment(root, installed):
    start(root, bootstrap.FOR_TESTS, installed)
    add_project(root, ".", PROJECT.replace("numpy", "numpy>=2"))
    again = ["core", "data", "test", "opencl", "dev"]
    assert start(root, bootstrap.FOR_EXAMPLES, installed) == again


@pytest.mark.parametrize(
    ("options", "sets"),
    [
        (["--device", "opencl"], ["opencl"]),
        (["--epochs", "1", "--device=opencl:1"], ["opencl"]),
        (["--device", "cpu"], []),
        (["--device"], []),
        (["opencl"], []),
        ([], []),
    ],
)
def test_the_device_of_an_example_brings_its_backend(options, sets, monkeypatch):
    monkeypatch.delenv("SINGA_DEVICE", raising=False)
    assert bootstrap.chosen_backend(options) == sets


def test_the_default_device_brings_its_backend_unless_another_is_named(monkeypatch):
    monkeypatch.setenv("SINGA_DEVICE", "opencl:1")
    assert bootstrap.chosen_backend(["--epochs", "1"]) == ["opencl"]
    assert bootstrap.chosen_backend(["--device", "cpu"]) == []


def test_a_backend_that_is_not_chosen_stays_where_it_is(root, installed):
    both = (*bootstrap.FOR_EXAMPLES, "opencl")
    start(root, bootstrap.FOR_EXAMPLES, installed)
    assert start(root, both, installed) == ["opencl"]
    assert start(root, bootstrap.FOR_EXAMPLES, installed) == []
    add_project(root, "backends/opencl", PROJECT.replace("numpy", "numpy>=2"))
    assert start(root, bootstrap.FOR_EXAMPLES, installed) == ["core", "data", "opencl"]


def test_settings_of_other_tools_change_nothing(root, installed):
    start(root, bootstrap.FOR_EXAMPLES, installed)
    add_project(root, ".", PROJECT.replace("100", "99"))
    assert start(root, bootstrap.FOR_EXAMPLES, installed) == []


def test_a_new_plugin_is_added_and_a_vanished_one_means_a_new_environment(root, installed):
    start(root, ["core"], installed)
    add_project(root, "plugins/pack")
    assert start(root, ["core"], installed) == ["core"]
    (root / "plugins" / "pack" / "pyproject.toml").unlink()
    assert start(root, ["core"], installed) == ["venv", "core"]


def change_stamp(checkout, **fields):
    path = checkout / ".venv" / bootstrap.STAMP
    path.write_text(json.dumps(json.loads(path.read_text()) | fields), encoding="utf-8")


@pytest.mark.parametrize(
    "damage",
    [
        lambda root: (root / ".venv" / bootstrap.STAMP).unlink(),
        lambda root: (root / ".venv" / bootstrap.STAMP).write_text('{"root": '),
        lambda root: change_stamp(root, word_of_a_later_version=1),
        lambda root: change_stamp(root, python="cpython-27"),
        lambda root: change_stamp(root, root="somewhere else"),
        lambda root: bootstrap.venv_python(root / ".venv").unlink(),
    ],
    ids=["no stamp", "cut stamp", "strange stamp", "other Python", "moved", "Python is gone"],
)
def test_what_cannot_be_trusted_is_made_anew(root, installed, damage):
    start(root, ["core"], installed)
    (root / ".venv" / "rest of the old one").touch()
    damage(root)
    assert start(root, ["core"], installed) == ["venv", "core"]
    assert not (root / ".venv" / "rest of the old one").exists()


def test_an_interrupted_installation_is_made_anew(root, installed, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "install", interrupt)
        with pytest.raises(KeyboardInterrupt):
            bootstrap.ensure_environment(root, ["core"])
    assert start(root, ["core"], installed) == ["venv", "core"]


def test_an_environment_of_the_user_s_is_left_alone(root, installed):
    python = bootstrap.venv_python(root / ".venv")
    python.parent.mkdir(parents=True)
    python.touch()
    with pytest.raises(bootstrap.BootstrapError, match="was not made by this command: move it"):
        bootstrap.ensure_environment(root, ["core"])
    assert python.exists()


def test_an_environment_that_lost_its_python_is_nobody_s(root, installed):
    (root / ".venv").mkdir()
    (root / ".venv" / "pyvenv.cfg").touch()
    assert start(root, ["core"], installed) == ["venv", "core"]


def test_a_link_is_not_followed(root, installed, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    try:
        (root / ".venv").symlink_to(elsewhere, target_is_directory=True)
    except OSError:
        pytest.skip("this system does not let us make links")
    with pytest.raises(bootstrap.BootstrapError, match="was not made by this command"):
        bootstrap.ensure_environment(root, ["core"])


# --- what the user is told --------------------------------------------------------------------


@pytest.mark.parametrize("ready", [False, True])
def test_a_folder_that_cannot_be_written_is_told_in_a_line(
    root, installed, monkeypatch, capsys, ready
):
    if ready:
        bootstrap.ensure_environment(root, bootstrap.FOR_TESTS)
    installed.clear()
    capsys.readouterr()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(bootstrap, "ROOT", root)
    assert bootstrap.tests([]) == 1
    why = (
        "ruff, mypy and pytest keep their caches there"
        if ready
        else "the environment is made in it"
    )
    told = f"singa-core: {root} cannot be written, and {why}: copy it to a folder that can\n"
    assert capsys.readouterr().err == told
    assert installed == []


def test_an_optional_set_that_cannot_be_had_is_told_and_not_tried_again(root, installed, capsys):
    installed.refuses = ("dev",)
    line = "going on without oracle==2, not installable here (remove .venv to try again)"
    assert start(root, bootstrap.FOR_TESTS, installed)[-1] == "dev"
    assert line in capsys.readouterr().err
    assert start(root, bootstrap.FOR_TESTS, installed) == []
    assert line in capsys.readouterr().err
    assert start(root, bootstrap.FOR_EXAMPLES, installed) == []
    assert capsys.readouterr().err == ""  # examples do not miss it


def test_pip_s_last_lines_and_one_sentence_are_shown(root, installed, capsys):
    installed.refuses = ("core",)
    with pytest.raises(bootstrap.BootstrapError, match="pip could not install backends/cpu_numpy "
                       r"\(see above; all in .*bootstrap.log\): is a package index"):  # fmt: skip
        bootstrap.ensure_environment(root, ["core"])
    assert capsys.readouterr().err.endswith("line 1\nno such package\n")


def test_a_missing_venv_module_gets_one_line(monkeypatch):
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(bootstrap.BootstrapError, match="lacks the module venv and ensurepip; try: "
                       "apt-get install python3-venv"):  # fmt: skip
        bootstrap.check_modules()


def test_a_project_file_that_does_not_parse_is_named(root):
    add_project(root, ".", "[project")
    with pytest.raises(bootstrap.BootstrapError, match="pyproject.toml does not parse: "):
        bootstrap.wanted_stamp(root, ["core"])


@pytest.mark.parametrize("error", [bootstrap.BootstrapError("one line"), OSError("one line")])
def test_failures_end_in_one_line_and_a_code(error, capsys):
    def command(root, args):
        raise error

    assert bootstrap.reporting(command, []) == 1
    assert re.fullmatch(r"singa-core: .*one line\n", capsys.readouterr().err)


def test_an_old_python_is_told_so():
    assert require_python.complaint((3, 9, 2, "final", 0)) == (
        "singa-core: needs Python >= 3.11, this is 3.9.2"
    )
    assert require_python.complaint((3, 11, 0)) is None


def test_the_minimum_is_the_project_s():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert config["project"]["requires-python"] == ">={}.{}".format(*require_python.MINIMUM)


@pytest.mark.parametrize("name", ["scripts/require_python", "examples/__main__", "tests/__main__"])
def test_what_an_old_python_reads_has_no_new_syntax(name):
    tree = ast.parse((ROOT / f"{name}.py").read_bytes(), feature_version=(3, 4))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.AnnAssign)]


# --- starts at the same time ------------------------------------------------------------------

HOLDER = """
    import sys, time
    from pathlib import Path
    sys.path.insert(0, {scripts!r})
    import bootstrap
    with bootstrap.only_one(Path({lock!r})):
        print("in", flush=True)
        sys.stdin.readline()
"""


def test_one_start_waits_for_another_and_not_for_a_dead_one(tmp_path):
    code = textwrap.dedent(HOLDER).format(scripts=str(ROOT / "scripts"), lock=str(tmp_path / "l"))

    def holder():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([sys.executable, "-c", code], text=True, **pipes)

    with holder() as first:
        assert first.stdout.readline() == "in\n"
        with holder() as second:
            assert second.stderr.readline() == (
                "singa-core: waiting for another start that is installing\n"
            )
            first.kill()
            assert second.stdout.readline() == "in\n"
            second.communicate("\n")
        first.communicate()


# --- the commands -----------------------------------------------------------------------------


@pytest.fixture
def gallery(root, installed, monkeypatch):
    """A checkout with examples; programs are recorded, not started."""
    folder = root / "examples"
    folder.mkdir()
    (folder / "__main__.py").touch()
    (folder / "mnist_cnn.py").write_text('"""Learn digits.\n\nMore."""\nimport not_there\n')
    (folder / "plain.py").write_text("x = 1\n")
    (folder / "broken.py").write_text("\ndef (\n")
    monkeypatch.setattr(bootstrap, "become", lambda command: command[1:])
    return root


def test_examples_are_listed_without_being_run(gallery, installed, capsys):
    assert bootstrap.run_examples(gallery, ["--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{'broken':<20} (does not parse, line 2)",
        f"{'mnist_cnn':<20} Learn digits.",
        f"{'plain':<20} (no docstring)",
    ]
    assert installed == []


@pytest.mark.parametrize(
    ("args", "name", "options"),
    [
        ([], "mnist_cnn", []),
        (["--epochs", "3"], "mnist_cnn", ["--epochs", "3"]),
        (["plain"], "plain", []),
        (["plain", "--list"], "plain", ["--list"]),
        (["plain", "--help"], "plain", ["--help"]),
    ],
)
def test_which_example_runs_with_what(gallery, args, name, options):
    script = str(gallery / "examples" / f"{name}.py")
    assert bootstrap.run_examples(gallery, args) == [script, *options]


def test_an_unknown_example_names_the_known_ones(gallery, installed, capsys):
    assert bootstrap.run_examples(gallery, ["mnist"]) == 2
    assert capsys.readouterr().err == (
        "singa-core: no example is named 'mnist'; there are: broken, mnist_cnn, plain\n"
    )
    assert installed == []


@pytest.mark.parametrize("command", [bootstrap.run_examples, bootstrap.run_tests])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_installs_nothing(gallery, installed, capsys, command, flag):
    assert command(gallery, [flag]) == 0
    assert capsys.readouterr().out.startswith("python3 ")
    assert installed == []


class Tools:
    """Stands for the tools: those in `failing` fail."""

    def __init__(self, failing):
        self.failing, self.ran = failing, []

    def __call__(self, command, check):
        self.ran.append(command[2])
        return subprocess.CompletedProcess(command, int(command[2] in self.failing))


@pytest.fixture
def tools(root, installed, monkeypatch):
    """A function that runs `python3 tests ARGS`; returns the exit code and the tools that ran."""
    monkeypatch.chdir(root)

    def run(args, failing=()):
        fake = Tools(failing)
        monkeypatch.setattr(bootstrap.subprocess, "run", fake)
        monkeypatch.setattr(bootstrap, "become", lambda command: fake(command, False).returncode)
        return bootstrap.run_tests(root, args), fake.ran

    return run


def test_the_static_checks_come_first(tools):
    assert tools([]) == (0, ["ruff", "ruff", "mypy", "pytest"])


def test_with_arguments_pytest_runs_alone(tools):
    assert tools(["-k", "linear"]) == (0, ["pytest"])


@pytest.mark.parametrize("failing", ["ruff", "mypy", "pytest"])
def test_any_failure_is_the_exit_code_and_all_are_run(tools, failing, capsys):
    assert tools([], failing=[failing]) == (1, ["ruff", "ruff", "mypy", "pytest"])
    told = capsys.readouterr().err
    assert ("failed before pytest" in told) is (failing != "pytest")


def test_a_start_with_nothing_to_do_is_quick():
    """The real command in a process of its own; the environment is the one running this test."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    began = time.perf_counter()
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples"), "--list"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    assert time.perf_counter() - began < 5  # loose: the machine may be busy
