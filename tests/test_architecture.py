"""The shape of the house: what may import what, and what may be named where."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import singa_core
from house import imports, sizes
from house.floors import FLOORS, floor_of

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "singa_core"
BACKENDS = sorted(path.parent for path in ROOT.glob("backends/*/pyproject.toml"))
PROJECTS = [ROOT, *BACKENDS, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
KNOWN_BACKENDS = CORE / "known_backends.json"  # feeds the "pip install ..." hint


def relative(path):
    return path.relative_to(ROOT).as_posix()


def read_project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


# --- imports point down -----------------------------------------------------------------------


def test_imports_in_the_core_point_down():
    assert imports.violations(ROOT) == []


@pytest.mark.parametrize("folder", BACKENDS, ids=relative)
def test_backends_import_the_words_and_the_seam_only(folder):
    assert imports.backend_violations(ROOT, folder) == []


def test_no_module_has_two_floors():
    names = [name for _, listed in FLOORS for name in listed.split()]
    assert len(names) == len(set(names))


def test_every_module_that_has_a_floor_exists():
    names = {name for _, listed in FLOORS for name in listed.split()}
    there = {path.stem for path in (ROOT / "singa_core").iterdir() if path.suffix in ("", ".py")}
    assert names - there == set()


def test_a_floor_is_found_by_the_first_word_and_not_by_its_beginning():
    assert floor_of("singa_core.layers.linear") == floor_of("singa_core.layer") == 4
    assert floor_of("singa_core.ops.conv") == 3
    assert floor_of("singa_core.specification") is None


@pytest.fixture
def house(tmp_path):
    """A function that builds a small core and returns what the checker says about it."""

    def build(**files):
        files = {"__init__": "from singa_core.spec import Spec", "spec": "class Spec: ..."} | files
        for name, text in files.items():
            path = tmp_path / "singa_core" / f"{name.replace('__in__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return imports.violations(tmp_path)

    return build


UPWARD = {
    "plain": "import singa_core.tensor",
    "from": "from singa_core.tensor import Tensor",
    "from the package": "from singa_core import tensor",
    "relative": "from .tensor import Tensor",
    "relative package": "from . import tensor",
    "in a function": "def f():\n    from singa_core.tensor import Tensor",
    "for types": "if TYPE_CHECKING:\n    from singa_core.tensor import Tensor",
    "by name": "importlib.import_module('singa_core.tensor')",
    "by relative name": "import_module('.tensor', __package__)",
}


@pytest.mark.parametrize("text", UPWARD.values(), ids=UPWARD.keys())
def test_an_upward_import_is_caught(house, text):
    (line,) = house(tensor="class Tensor: ...", device=text)
    assert line.endswith("singa_core.device (F1) imports singa_core.tensor (F2)")
    assert line.startswith(f"singa_core/device.py:{text.count(chr(10)) + 1}: ")


def test_downward_and_level_imports_pass(house):
    assert house(
        dtype="from .spec import Spec\nimport numpy",
        tensor="from singa_core.dtype import x\nfrom . import spec, autograd",
        autograd="import singa_core.tensor",
    ) == []  # fmt: skip


def test_relative_imports_inside_a_package_are_read_from_that_package(house):
    (line,) = house(
        kernels__in____init__="", kernels__in__array="from ..layer import Layer", layer=""
    )
    assert line.endswith("singa_core.kernels.array (F1) imports singa_core.layer (F4)")


@pytest.mark.parametrize("text", ["from singa_core import Spec", "from . import Spec"])
def test_the_front_door_is_closed_from_inside(house, text):
    assert house(tensor=text) == [
        "singa_core/tensor.py:1: imports Spec through the front door: name the module it lives in"
    ]


def test_a_module_without_a_floor_is_caught(house):
    assert house(attic="") == [
        "singa_core/attic.py:1: singa_core.attic has no floor: "
        "assign one in tests/house/floors.py"
    ]  # fmt: skip


def test_the_core_may_not_import_what_depends_on_it(house):
    (line,) = house(cli="def main():\n    import singa_some_pack")
    assert line.endswith(":2: the core imports singa_some_pack, which depends on it")


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("from singa_core.device import Device", False),
        ("from singa_core.kernels.array import add", False),
        ("from singa_core import Tensor", True),
        ("from singa_core import tensor", True),
        ("def f():\n    import singa_core.ops", True),
        ("from singa_core.unheard_of import x", True),
        ("from . import kernels", False),
    ],
)
def test_a_backend_that_climbs_is_caught(house, tmp_path, text, caught):
    house(tensor="", device="")
    package = tmp_path / "backends" / "toy" / "singa_toy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(text, encoding="utf-8")
    assert bool(imports.backend_violations(tmp_path, package.parent)) is caught


# --- what may be named where ------------------------------------------------------------------


def backend_names():
    """Names that users give to devices, and the libraries behind them."""
    ours = {
        name
        for folder in BACKENDS
        for name in read_project(folder)["project"]["entry-points"]["singa.backends"]
    }
    return ours | {"cpu_numpy", "cuda_cupy", "cpu_halide", "opencl", "pyopencl", "cupy", "halide"}


def names_in(text, names):
    return sorted(name for name in names if re.search(rf"(?<![a-z]){name}(?![a-z])", text))


def test_no_backend_is_named_in_the_core():
    found = {
        relative(path): named
        for path in CORE.rglob("*")
        if path.is_file() and path != KNOWN_BACKENDS and "__pycache__" not in path.parts
        if (named := names_in(path.read_text(encoding="utf-8", errors="ignore"), backend_names()))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text", ["import cupy", "'singa_cpu_numpy'", 'device("opencl:1")', "cuda_cupy_only"]
)
def test_a_named_backend_is_caught(text):
    assert names_in(text, backend_names())


def test_technologies_may_be_spoken_of():
    assert names_in("OpenCL's work items, like NumPy's rows", backend_names()) == []


HOSTS = ("www.apache.org", "www.w3.org")  # a licence and the name space of SVG
PLACE = re.compile(
    r"""https?://(?P<host>[\w.-]+) | (?:^|(?<=[\s"'=(`]))(?P<path>/[A-Za-z][\w-]*(?:/[\w.-]+)+)""",
    re.VERBOSE,
)


def places_named(text):
    """Hosts that are not known, and absolute paths: they belong to one machine or provider."""
    return [m[0] for m in PLACE.finditer(text) if m["path"] or m["host"].rstrip(".") not in HOSTS]


def test_the_repository_names_no_host_and_no_folder_of_one_machine():
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in tracked_files()
        for number, line in enumerate(lines_of(ROOT / name), 1)
        if name != "tests/test_architecture.py" and places_named(line)
    ]
    assert found == []


def tracked_files():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def lines_of(path):
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []  # not text


@pytest.mark.parametrize("text", ["see https://example.org/x", "open('/srv/data')", "cd /a/b"])
def test_a_host_or_a_machine_s_folder_is_caught(text):
    assert places_named(text)


@pytest.mark.parametrize(
    "text", ["a/data/b", "./data/x", "n / c / h", "{x}/data/", "http://www.apache.org/licenses/"]
)
def test_other_paths_pass(text):
    assert places_named(text) == []


# --- one version, one licence -----------------------------------------------------------------


@pytest.mark.parametrize("folder", PROJECTS, ids=relative)
def test_all_versions_are_the_core_s(folder):
    assert read_project(folder)["project"]["version"] == singa_core.__version__


@pytest.mark.parametrize("folder", PROJECTS[1:], ids=relative)
def test_what_depends_on_the_core_pins_it(folder):
    wanted = [
        line for line in read_project(folder)["project"]["dependencies"]
        if line.startswith("singa-core")
    ]  # fmt: skip
    assert wanted == [f"singa-core=={singa_core.__version__}"]


@pytest.mark.parametrize("folder", PROJECTS, ids=relative)
def test_every_distribution_carries_the_licence(folder):
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


# --- habits -----------------------------------------------------------------------------------


def test_what_is_shipped_has_no_assert_statement():
    """`python -O` would remove it."""
    parts = ("backends", "plugins")
    shipped = [
        *CORE.rglob("*.py"),
        *(f for p in parts for f in ROOT.glob(f"{p}/*/singa_*/**/*.py")),
    ]
    assert [f"{relative(path)}:{line}" for path in shipped for line in imports.asserts(path)] == []


def test_an_assert_statement_is_caught(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("def f(x):\n    assert x\n", encoding="utf-8")
    assert imports.asserts(path) == [2]


def test_sizes_are_told_by_floor_and_long_ones_by_name(house, tmp_path):
    body = "\n    1" * sizes.LONG_FUNCTION
    house(tensor=f"def long():{body}\n", device="x = 1\n" * (sizes.LONG_FILE + 1))
    text = "\n".join(sizes.report(tmp_path))
    assert re.search(r"F2 engine +1 files +41 lines +1 functions; .*tensor\.long 41", text)
    assert f"1 files above {sizes.LONG_FILE} lines: device {sizes.LONG_FILE + 1}" in text
    assert f"1 functions above {sizes.LONG_FUNCTION} lines: tensor.long 41" in text


def test_sizes_survive_a_file_that_does_not_parse(house, tmp_path):
    house(ops="x = 1")
    (tmp_path / "singa_core" / "ops.py").write_text("def (", encoding="utf-8")
    assert any(line.startswith("F3 ops") for line in sizes.report(tmp_path))
