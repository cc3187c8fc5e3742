"""Which floor each module lives on: the one place where that is written down."""

FLOORS = (
    ("F0 words", "errors dtype spec checks signature"),
    ("F1 seam", "device storage program kernels hints offers registry"),
    (
        "F2 engine",
        "operation tensor readable autograd recorder passes executable profiling random engine mode "
        "indexing node homes optable sample methods scalars update resolve launch arguments host arena attributes",
    ),
    ("F3 ops", "ops"),
    ("F4 layers", "layer layers parameter watched fingerprint initializer opt metric data"),
    (
        "F5 model",
        "model io hooks training evaluation interrupts callbacks summary plot plugins conformance cli "
        "__main__",
    ),
)
OPEN_TO_BACKENDS = 1  # backends import up to this floor

_FLOOR_OF = {name: floor for floor, (_, names) in enumerate(FLOORS) for name in names.split()}


def floor_of(module: str) -> int | None:
    """Floor of a module of the core by its full name; None if nobody has assigned one."""
    return _FLOOR_OF.get(module.split(".")[1])
