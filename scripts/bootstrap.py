"""From a bare Python to a running example or test: makes `.venv` and starts things in it.

Standard library only. The environment is described by a stamp, `.venv/singa-stamp.json`, that is
removed before anything is installed and written when all of it is: no stamp, no environment.
"""

import ast
import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
MAIN_EXAMPLE = "mnist_cnn"
BACKENDS = ("backends/cpu_numpy",)  # the others need hardware or drivers: installed by choice
CHOSEN = {"opencl": "backends/opencl[pocl]"}  # set and backend -> with a driver that pip can have
FOR_EXAMPLES = ("core", "data")
FOR_TESTS = ("core", "data", "test", *CHOSEN, "dev")
# 100 MB or more, and not for every system: what needs it skips where it cannot be had
OPTIONAL = frozenset({*CHOSEN, "dev"})

OURS = "singa-bootstrap"  # file in .venv: made here, so may be removed here
STAMP = "singa-stamp.json"
LOG_LINES = 15

Command = Callable[[Path, list[str]], int]

EXAMPLES_HELP = """\
python3 examples                   run the main example ({main})
python3 examples --list            list the examples
python3 examples NAME [options]    run one of them
python3 examples [options]         options for the main example

`--device opencl` (or SINGA_DEVICE=opencl) installs that backend too, with a driver for the CPU."""

TESTS_HELP = """\
python3 tests                  ruff check, ruff format --check, mypy, then pytest
python3 tests PYTEST-ARGS      pytest alone, with these arguments"""


class BootstrapError(Exception):
    """What went wrong, in one clear line for the user."""


# --- what is there and what is wanted ---------------------------------------------------------


@dataclass(frozen=True)
class Stamp:
    """What an environment was made of."""

    root: str  # editable installs hold absolute paths, so a moved checkout needs a new one
    python: str
    projects: dict[str, str]  # folder -> hash of what its pyproject.toml says to pip
    sets: tuple[str, ...]
    failed: tuple[str, ...] = ()  # optional sets that could not be had; not tried at every start

    def serves(self, wanted: "Stamp") -> bool:
        """Tell whether nothing needs to be installed."""
        tried = {*self.sets, *self.failed}
        return (
            self.can_grow_into(wanted)
            and self.projects == wanted.projects
            and tried.issuperset(wanted.sets)
        )

    def can_grow_into(self, wanted: "Stamp") -> bool:
        """Tell whether installing more is enough; a project that is gone would stay behind."""
        return (
            self.root == wanted.root
            and self.python == wanted.python
            and self.projects.keys() <= wanted.projects.keys()
        )


def wanted_stamp(root: Path, sets: Iterable[str]) -> Stamp:
    """Describe the environment that this checkout, this Python and these sets need."""
    abi = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    chosen = [place.partition("[")[0] for place in CHOSEN.values()]
    folders = [*project_folders(root), *(f for f in chosen if (root / f).is_dir())]
    hashes = {folder: project_hash(root / folder) for folder in folders}
    return Stamp(str(root), abi, hashes, tuple(sets))


def project_hash(folder: Path) -> str:
    """Hash what installing depends on: all of pyproject.toml but the settings of other tools."""
    config = read_project(folder)
    config["tool"] = config.get("tool", {}).get("hatch")
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def read_project(folder: Path) -> dict[str, Any]:
    """Read a pyproject.toml."""
    path = folder / "pyproject.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BootstrapError(f"{path} does not parse: {error}") from None


def project_folders(root: Path) -> list[str]:
    """List the distributions to install, the core first."""
    plugins = sorted(path.parent for path in root.glob("plugins/*/pyproject.toml"))
    return [".", *BACKENDS, *(path.relative_to(root).as_posix() for path in plugins)]


def read_stamp(venv: Path) -> Stamp | None:
    """Read the stamp; None where there is none that this version understands."""
    try:
        fields = json.loads((venv / STAMP).read_text(encoding="utf-8"))
        fields["sets"], fields["failed"] = tuple(fields["sets"]), tuple(fields["failed"])
        return Stamp(**fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_stamp(venv: Path, stamp: Stamp) -> None:
    """Write the stamp so that it is there whole or not at all."""
    draft = venv / f"{STAMP}.new"
    draft.write_text(json.dumps(asdict(stamp), indent=2) + "\n", encoding="utf-8")
    draft.replace(venv / STAMP)


def venv_python(venv: Path) -> Path:
    """Name the environment's Python."""
    return venv / "Scripts" / "python.exe" if os.name == "nt" else venv / "bin" / "python"


def is_ready(venv: Path, wanted: Stamp) -> bool:
    """Tell whether the environment can be used as it is (its Python may have been removed)."""
    stamp = read_stamp(venv)
    return stamp is not None and stamp.serves(wanted) and venv_python(venv).exists()


# --- making the environment -------------------------------------------------------------------


def ensure_environment(root: Path, sets: Sequence[str]) -> Path:
    """Return the Python of an environment with these sets, making or mending it if need be."""
    venv, wanted = root / ".venv", wanted_stamp(root, sets)
    if not is_ready(venv, wanted):
        may_write(root, "the environment is made in it")
        with only_one(root / ".venv.lock"):
            if not is_ready(venv, wanted):  # another start may have made it meanwhile
                make_environment(root, venv, wanted)
    stamp = read_stamp(venv)
    for name in stamp.failed if stamp else ():
        if name in sets:
            packages = ", ".join(requirements(root, name))
            say(f"going on without {packages}, not installable here (remove .venv to try again)")
    return venv_python(venv)


def may_write(folder: Path, why: str) -> None:
    """Say so at once if a folder cannot be written."""
    if not os.access(folder, os.W_OK):
        raise BootstrapError(f"{folder} cannot be written, and {why}: copy it to a folder that can")


def make_environment(root: Path, venv: Path, wanted: Stamp) -> None:
    """Install what is missing, into a new environment unless the old one can be kept."""
    have = read_stamp(venv)
    keep = have is not None and have.can_grow_into(wanted) and venv_python(venv).exists()
    if have is None or not keep:
        create_venv(venv)
        have = Stamp(wanted.root, wanted.python, {}, ())
    (venv / STAMP).unlink(missing_ok=True)
    missing = [name for name in wanted.sets if name not in have.sets]
    sets, failed = list(have.sets), list[str]()
    if have.projects != wanted.projects:  # what any of them asks for may have changed
        missing = list(dict.fromkeys([*have.sets, *missing]))
        sets = []
    for name in missing:
        (sets if install(root, venv, name) else failed).append(name)
    write_stamp(venv, replace(wanted, sets=tuple(sets), failed=tuple(failed)))


def create_venv(venv: Path) -> None:
    """Make an empty environment in place of one made here before."""
    check_modules()
    if os.path.lexists(venv):
        if not may_replace(venv):
            raise BootstrapError(f"{venv} was not made by this command: move it away and try again")
        say("removing .venv, which is half-made or out of date")
        shutil.rmtree(venv)
    say(f"making {venv}")
    venv.mkdir()
    (venv / OURS).touch()  # first of all: an interrupted start leaves something known as ours
    log = venv / "bootstrap.log"
    if run_logged([sys.executable, "-m", "venv", str(venv)], log) != 0:
        show_end(log)
        raise BootstrapError(f"Python's venv module failed; its last lines are above, all in {log}")


def may_replace(venv: Path) -> bool:
    """Tell whether a folder was made here, or is of no use to anybody."""
    if venv.is_symlink() or not venv.is_dir():
        return False
    broken = (venv / "pyvenv.cfg").exists() and not venv_python(venv).exists()
    return broken or (venv / OURS).exists() or not any(venv.iterdir())


def check_modules() -> None:
    """Some distributions ship Python without the modules that make environments."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise BootstrapError(
            f"this Python lacks the module {' and '.join(missing)}; "
            "try: apt-get install python3-venv (Debian, Ubuntu) or a Python from python.org"
        )


def install(root: Path, venv: Path, name: str) -> bool:
    """Install one set; False if it is optional and could not be had."""
    args = requirements(root, name)
    say(f"installing {' '.join(arg for arg in args if not arg.startswith('-'))}")
    log = venv / "bootstrap.log"
    pip = [str(venv_python(venv)), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    if run_logged([*pip, "install", *args], log, cwd=root) == 0:
        return True
    if name in OPTIONAL:
        return False
    show_end(log)
    raise BootstrapError(
        f"pip could not install {args[-1]} (see above; all in {log}): "
        "is a package index within reach?"
    )


def requirements(root: Path, name: str) -> list[str]:
    """Return pip's arguments for one set, read from the pyproject files."""
    if name == "core":
        return [part for folder in project_folders(root) for part in ("-e", folder)]
    if name in CHOSEN:
        return ["-e", CHOSEN[name]]
    config = read_project(root)
    if name == "test":  # pip older than 25.1 does not know dependency groups
        return list(config["dependency-groups"][name])
    no_deps = ["--no-deps"] if name == "data" else []  # only a file in it is read
    return [*no_deps, *config["project"]["optional-dependencies"][name]]


def run_logged(command: Sequence[str], log: Path, cwd: Path | None = None) -> int:
    """Run a command with its output in a file."""
    # A user-wide `pip install --user` setting would be refused inside an environment.
    env = {**os.environ, "PIP_USER": "0"}
    with log.open("ab") as output:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            cwd=cwd,
            check=False,
        ).returncode


def show_end(log: Path) -> None:
    """Print the last lines of a file."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    print(*lines[-LOG_LINES:], sep="\n", file=sys.stderr)


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold a lock file; the system frees it if this process dies, so it is never stale."""
    with path.open("a+") as file:
        if not try_lock(file.fileno(), wait=False):
            say("waiting for another start that is installing")
            while not try_lock(file.fileno(), wait=True):
                pass
        yield


if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int, *, wait: bool) -> bool:
        """Lock the file; waiting means ten tries a second apart."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(descriptor: int, *, wait: bool) -> bool:
        """Lock the file, waiting as long as it takes or not at all."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True


# --- the two commands -------------------------------------------------------------------------


def examples(args: list[str]) -> int:
    """Run `python3 examples`."""
    return reporting(run_examples, args)


def tests(args: list[str]) -> int:
    """Run `python3 tests`."""
    return reporting(run_tests, args)


def reporting(command: Command, args: list[str]) -> int:
    """Turn failures that a user can mend into one line."""
    try:
        return command(ROOT, args)
    except BootstrapError as error:
        say(str(error))
    except OSError as error:  # a full disk, a folder that may not be written, ...
        say(f"cannot set up {ROOT / '.venv'}: {error}")
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    return 1


def run_examples(root: Path, args: list[str]) -> int:
    """List the examples or run one of them, in the caller's folder."""
    known = list_examples(root / "examples")
    if args in (["-h"], ["--help"]):
        print(EXAMPLES_HELP.format(main=MAIN_EXAMPLE))
        return 0
    if args == ["--list"]:
        print(*(f"{name:<20} {line}" for name, line in known.items()), sep="\n")
        return 0
    named = bool(args) and not args[0].startswith("-")
    name, options = (args[0], args[1:]) if named else (MAIN_EXAMPLE, args)
    if name not in known:
        say(f"no example is named {name!r}; there are: {', '.join(known) or 'none yet'}")
        return 2
    python = ensure_environment(root, (*FOR_EXAMPLES, *chosen_backend(options)))
    return become([str(python), str(root / "examples" / f"{name}.py"), *options])


def chosen_backend(options: Sequence[str]) -> list[str]:
    """The set that the example's device needs beside the others."""
    named = [after for option, after in pairwise(options) if option == "--device"]
    named += [option.partition("=")[2] for option in options if option.startswith("--device=")]
    named = named or [os.environ.get("SINGA_DEVICE", "")]  # the default of `--device`
    backends = [name.partition(":")[0] for name in named]
    return [name for name in dict.fromkeys(backends) if name in CHOSEN]


def list_examples(folder: Path) -> dict[str, str]:
    """Map each example's name to the first line of its docstring, without importing it."""
    paths = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    return {path.stem: first_line(path) for path in paths}


def first_line(path: Path) -> str:
    """Return the first line of a file's docstring."""
    try:
        text = ast.get_docstring(ast.parse(path.read_bytes()))
    except SyntaxError as error:
        return f"(does not parse, line {error.lineno})"
    return text.splitlines()[0] if text else "(no docstring)"


def run_tests(root: Path, args: list[str]) -> int:
    """Run the static checks and pytest, or with arguments pytest alone."""
    if args in (["-h"], ["--help"]):
        print(TESTS_HELP)
        return 0
    python = str(ensure_environment(root, FOR_TESTS))
    may_write(root, "ruff, mypy and pytest keep their caches there")
    os.chdir(root)  # where the tools find their settings
    pytest = [python, "-m", "pytest", *args]
    failed = [] if args else [check for check in checks(python) if not passes(check)]
    if not failed:
        return become(pytest)
    code = subprocess.run(pytest, check=False).returncode
    say(f"failed before pytest: {', '.join(' '.join(check[2:]) for check in failed)}")
    return code or 1


def checks(python: str) -> list[list[str]]:
    """List the static checks, cheapest first."""
    module = [python, "-m"]
    return [
        [*module, "ruff", "check"],
        [*module, "ruff", "format", "--check"],
        [*module, "mypy"],
    ]


def passes(command: list[str]) -> bool:
    """Say what runs, run it, tell whether it succeeded."""
    print(f"$ {' '.join(command[2:])}", flush=True)
    return subprocess.run(command, check=False).returncode == 0


def become(command: list[str]) -> NoReturn:
    """Hand this process over to another program, so that signals and exit codes are its own."""
    sys.stdout.flush()
    if os.name == "nt":  # there exec returns to the shell at once
        sys.exit(subprocess.run(command, check=False).returncode)
    os.execv(command[0], command)


def say(line: str) -> None:
    """Tell the user one thing about the set-up, apart from the program's own output."""
    print(f"singa-core: {line}", file=sys.stderr, flush=True)
