"""Reads who imports whom from the source, without running it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from house.floors import OPEN_TO_BACKENDS, floor_of

CORE = "singa_core"


@dataclass(frozen=True)
class Import:
    """One imported name: `name` is empty for `import module`."""

    line: int
    module: str
    name: str = ""


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


def module_name(root: Path, path: Path) -> str:
    """`root/a/b.py` is a.b, `root/a/__init__.py` is a."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(root: Path, package: str) -> dict[str, Path]:
    return {module_name(root, path): path for path in sorted((root / package).rglob("*.py"))}


def imports_of(module: str, path: Path) -> Iterator[Import]:
    """All imports at any depth: in functions, under TYPE_CHECKING, by a constant name."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(package, node.level, node.module or "")
            yield from (Import(node.lineno, base, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            yield from named_by_constant(package, node)


def absolute(package: str, level: int, name: str) -> str:
    """Name in full what `from ..name` means inside a package."""
    if not level:
        return name
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])


def called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def named_by_constant(package: str, node: ast.Call) -> Iterator[Import]:
    first = node.args[0] if node.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        name = first.value.lstrip(".")
        yield Import(node.lineno, absolute(package, len(first.value) - len(name), name))


def violations(root: Path) -> list[str]:
    """Every import in the core that does not point down, as `file:line: what is wrong`."""
    found = []
    known = modules(root, CORE)
    for module, path in known.items():
        if module == CORE:
            continue  # the front door re-exports everything
        where = path.relative_to(root)
        floor = floor_of(module)
        if floor is None:
            found.append(f"{where}:1: {module} has no floor: assign one in tests/house/floors.py")
            continue
        found += [
            f"{where}:{item.line}: {problem}"
            for item in imports_of(module, path)
            if (problem := problem_in_core(module, floor, item, known))
        ]
    return found


def problem_in_core(module: str, floor: int, item: Import, known: dict[str, Path]) -> str | None:
    if not inside(item.module, CORE):
        ours = item.module == "singa" or item.module.startswith("singa_")
        return f"the core imports {item.module}, which depends on it" if ours else None
    target = target_of(item, known)
    if target == CORE:
        return f"imports {item.name or CORE} through the front door: name the module it lives in"
    above = floor_of(target)
    if above is None or above <= floor:
        return None  # a target without a floor is told once, for its own file
    return f"{module} (F{floor}) imports {target} (F{above})"


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def target_of(item: Import, known: dict[str, Path]) -> str:
    """`from a import b` means module a.b if there is one."""
    full = f"{item.module}.{item.name}"
    return full if full in known else item.module


def backend_violations(root: Path, folder: Path) -> list[str]:
    """Every import in a backend's package of what is not open to backends."""
    found = []
    known = modules(root, CORE)
    for package in sorted(path.parent for path in folder.glob("*/__init__.py")):
        for module, path in modules(folder, package.name).items():
            for item in imports_of(module, path):
                if not inside(item.module, CORE):
                    continue
                target = target_of(item, known)
                floor = None if target == CORE else floor_of(target)
                if floor is None or floor > OPEN_TO_BACKENDS:
                    where = path.relative_to(root)
                    found.append(f"{where}:{item.line}: a backend may not import {target}")
    return found


def asserts(path: Path) -> list[int]:
    return [node.lineno for node in ast.walk(parse(path)) if isinstance(node, ast.Assert)]
