"""Lines per floor, for the eye: nothing here can fail a run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from house.floors import FLOORS, floor_of
from house.imports import CORE, modules, parse

LONG_FILE, LONG_FUNCTION = 400, 40  # where a second look pays
SHOWN = 5


@dataclass
class Sizes:
    """Sizes of one floor, each as (lines, name)."""

    files: list[tuple[int, str]] = field(default_factory=list)
    functions: list[tuple[int, str]] = field(default_factory=list)

    def add(self, module: str, path: Path) -> None:
        short = module.removeprefix(f"{CORE}.")
        self.files.append((len(path.read_bytes().splitlines()), short))
        self.functions += [(lines, f"{short}.{name}") for lines, name in function_sizes(path)]

    def row(self, title: str) -> str:
        total = sum(lines for lines, _ in self.files)
        longest_file, longest = max(self.files), max(self.functions, default=(0, "-"))
        return (
            f"{title:<10} {len(self.files):>3} files {total:>6} lines "
            f"{len(self.functions):>5} functions; largest {longest_file[1]} {longest_file[0]}, "
            f"{longest[1]} {longest[0]}"
        )


def function_sizes(path: Path) -> Iterator[tuple[int, str]]:
    try:
        tree = parse(path)
    except SyntaxError:
        return  # somebody else's failure to report
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, node.name


def by_floor(root: Path) -> dict[int, Sizes]:
    floors: dict[int, Sizes] = {}
    for module, path in modules(root, CORE).items():
        floor = len(FLOORS) - 1 if module == CORE else floor_of(module)
        if floor is not None:
            floors.setdefault(floor, Sizes()).add(module, path)
    return dict(sorted(floors.items()))


def report(root: Path) -> list[str]:
    """The lines to print at the end of a run."""
    floors = by_floor(root)
    lines = [sizes.row(FLOORS[floor][0]) for floor, sizes in floors.items()]
    files = [item for sizes in floors.values() for item in sizes.files]
    functions = [item for sizes in floors.values() for item in sizes.functions]
    return (
        lines
        + long_ones("files", files, LONG_FILE)
        + long_ones("functions", functions, LONG_FUNCTION)
    )


def long_ones(what: str, sizes: list[tuple[int, str]], limit: int) -> list[str]:
    long = sorted((item for item in sizes if item[0] > limit), reverse=True)
    if not long:
        return []
    shown = ", ".join(f"{name} {lines}" for lines, name in long[:SHOWN])
    return [f"{len(long)} {what} above {limit} lines: {shown}"]
