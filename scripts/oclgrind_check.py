"""Every operation under oclgrind, a simulator that sees what a kernel reads and writes.

python scripts/oclgrind_check.py              both families, all operations, on their samples
python scripts/oclgrind_check.py add sum      these operations

It needs an environment with `pip install . ./backends/opencl 'pyopencl[oclgrind]'`. It tells of
accesses outside of a buffer, races between work items, barriers that not all reach, wrong results.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

# functions of the compiler that the simulator does not know, and who is compiled to them
GAPS = ("llvm.abs.i32", "llvm.abs.i64")
LEFT_OUT = (("abs", "int32"),)


def main(names: Sequence[str]) -> int:
    """Each family in a process of its own; the exit status says whether both are clean."""
    wrong = 0
    for family in ("cpu", "gpu"):
        environment = {
            **os.environ, "OCLGRIND_DATA_RACES": "1", "SINGA_OPENCL_FAMILY": family,
            "SINGA_OPENCL_DEVICE": "oclgrind", "PYOPENCL_NO_CACHE": "1",
        }  # fmt: skip
        command = [sys.executable, __file__, "--inside", *names]
        made = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        told = complaints(made.stdout + made.stderr)
        print(f"{family}: {made.stdout.count('ran ')} cases, {len(told)} complaints")
        print(*told, sep="\n")
        wrong += bool(told) or made.returncode != 0 or "ran " not in made.stdout
    return int(wrong > 0)


def complaints(text: str) -> list[str]:
    """What the simulator and the comparisons say, without what the simulator cannot do."""
    lines = [line.strip() for line in text.splitlines()]
    marks = ("Invalid", "race", "divergence", "Undefined external", "wrong: ", "Traceback")
    found = [line for line in lines if any(mark in line for mark in marks)]
    return [line for line in dict.fromkeys(found) if not any(gap in line for gap in GAPS)]


def inside(names: Sequence[str]) -> None:
    """Run the samples in this process."""
    from singa_core.conformance.cases import NAMES, cases  # noqa: PLC0415  (the simulator's own)
    from singa_core.conformance.groups import common  # noqa: PLC0415
    from singa_core.errors import DeviceFailure  # noqa: PLC0415
    from singa_core.registry import registry  # noqa: PLC0415

    device = registry.resolve("opencl")
    for name in names or NAMES:
        for case in cases(name, device, ("float32", "int32")):
            hosts = case.hosts(0)
            expected = common.reference(case, hosts)
            print(f"ran {case}", flush=True)
            try:
                outs = common.hosts_of(case.call(device, *case.tensors(device, 0)))
                common.compare_all(name, outs, expected, common.terms(hosts))
            except DeviceFailure as error:
                if (name, case.subject) not in LEFT_OUT:
                    print(f"wrong: {case}: {error}", flush=True)
            except Exception as error:
                print(f"wrong: {case}: {error}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
