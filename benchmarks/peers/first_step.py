"""Seconds from nothing to the first steps of a workload on a device: one line of JSON.

Options: the workload, the device, and "cpu" or "wall".
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np


def main() -> None:
    """Import, build, step twice."""
    name, where, clock = sys.argv[1:]
    now = time.process_time if clock == "cpu" else time.perf_counter
    marks = [now()]
    import singa_core  # noqa: PLC0415  (part of what is measured)
    from benchmarks.models import network  # noqa: PLC0415
    from benchmarks.workloads import WORKLOADS  # noqa: PLC0415

    device = singa_core.device(where)
    workload = WORKLOADS[name]
    batches = [[singa_core.tensor(a, device=device) for a in pair] for pair in workload.batches()]
    marks.append(now())
    model = network(workload, batches[0][0])
    marks.append(now())
    for batch in batches[:2]:
        float(np.asarray(model.train_one_batch(*batch)))
        marks.append(now())
    parts = [b - a for a, b in zip(marks, marks[1:], strict=False)]
    print(json.dumps(dict(zip(("import", "build", "first", "second"), parts, strict=True))))


if __name__ == "__main__":
    main()
