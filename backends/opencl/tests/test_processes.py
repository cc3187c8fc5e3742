"""Other processes, and interrupts from outside: nothing hangs, and who cannot work says so."""

import os
import subprocess
import sys
import textwrap

import pytest

from conftest import open_device

pytest.importorskip("pyopencl")
PATIENCE = 120  # seconds, of which a process that hangs takes all


@pytest.fixture(autouse=True)
def _there_is_a_device():
    open_device("opencl")


@pytest.fixture(params=["cpu", "gpu"])
def run(request, tmp_path):
    """What a script prints, in a process of its own that uses one family; it must end by itself."""

    def start(text):
        script = tmp_path / "script.py"  # a file: who spawns imports it again
        script.write_text(textwrap.dedent(text), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE,
            check=False, env={**os.environ, "SINGA_OPENCL_FAMILY": request.param},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.splitlines()

    return start


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@forks
def test_a_forked_child_is_refused_and_ends_and_the_parent_goes_on(run):
    """The child ends as any process does: it frees what it has inherited, with no driver behind it."""
    first, second, third = run(
        """
        import multiprocessing, warnings
        import singa_core as sc

        warnings.simplefilter("ignore")  # that a process with threads forks
        x = sc.tensor([1.0, 2.0], device="opencl")
        f = sc.graph(lambda x: x * 2.0)
        f(x)

        def child(told):
            global x, f
            y = sc.tensor([1.0], device="cpu_numpy") + 1.0
            for attempt in (lambda: x + 1.0, lambda: f(x), x.tolist, lambda: sc.ops.ones(3, device="opencl"),
                            lambda: sc.synchronize(x.device)):
                try:
                    attempt()
                except sc.errors.DeviceFailure as error:
                    told.put("this process was forked" in str(error))
                except Exception as error:
                    told.put(repr(error))
            told.put(y.tolist())
            del x, f

        fork = multiprocessing.get_context("fork")
        told = fork.Queue()
        child = fork.Process(target=child, args=(told,))
        child.start()
        print([told.get(timeout=60) for _ in range(6)])
        child.join(60)
        print(child.exitcode)
        print((x + 1.0).tolist(), f(x).tolist())
        """
    )
    assert first == "[True, True, True, True, True, [2.0]]"
    assert second == "0"
    assert third == "[2.0, 3.0] [2.0, 4.0]"


FORKING = """
import os, sys, time, warnings
import numpy as np
import singa_core as sc
from singa_core.registry import registry

warnings.simplefilter("ignore")  # that a process with threads forks
{before}
child = os.fork()
if not child:
    try:
        (sc.tensor([1.0], device="opencl") + 1.0).tolist()
    except sc.errors.SingaError as error:
        print(type(error).__name__, "this process was forked after OpenCL had been used" in str(error))
        print("spawn" in str(error))
    sys.exit(3)
end = time.monotonic() + 60
while time.monotonic() < end and not (done := os.waitpid(child, os.WNOHANG))[0]:
    time.sleep(0.05)
if not done[0]:
    os.kill(child, 9)
print(os.waitstatus_to_exitcode(done[1]) if done[0] else "it hangs")
print((sc.tensor([1.0, 2.0], device="opencl") + 1.0).tolist())
"""

PENDING = """
for _ in range(20):
    sc.tensor(np.ones(1 << 18, np.float32), device="opencl") * 2.0
"""


@forks
@pytest.mark.parametrize(
    ("before", "told"),
    [
        ('registry.probe("opencl")', "PluginError"),  # asked for devices, nothing made
        ('sc.device("opencl")', "DeviceFailure"),  # found, but not opened
        ('sc.device("opencl").open()', "DeviceFailure"),
        (PENDING, "DeviceFailure"),  # uploads and kernels are on their way
    ],
    ids=["probed", "made", "opened", "busy"],
)
def test_a_fork_at_any_moment_is_refused_and_its_interpreter_ends(run, before, told):
    """To use a driver without its threads, or to free an event that nobody ends, would hang."""
    lines = run(FORKING.format(before=before))
    assert lines == [f"{told} True", "True", "3", "[2.0, 3.0]"]


@forks
def test_a_child_forked_before_anybody_asked_may_use_opencl(run):
    assert run(FORKING.format(before="")) == ["3", "[2.0, 3.0]"]


TRAINING = """
import warnings
import numpy as np
import singa_core as sc

warnings.simplefilter("ignore")


class Net(sc.Model):
    def __init__(self):
        self.first, self.second = sc.layers.Linear(8), sc.layers.Linear(3)
        self.loss, self.optimizer = sc.ops.cross_entropy, sc.opt.Adam(0.01)

    def forward(self, x):
        return self.second(sc.ops.relu(self.first(x)))


def net(device="opencl", use_graph=True):
    sc.manual_seed(0)
    return Net().compile([sc.Placeholder((4, 5), device=device)], use_graph=use_graph)
"""


@pytest.mark.parametrize("how", ["spawn", pytest.param("fork", marks=forks)])
def test_workers_of_a_loader_that_only_load_are_welcome(run, how):
    """Also forked ones, after the device was opened: they do not touch it."""
    pytest.importorskip("torch")
    first, second = run(
        TRAINING
        + f"""
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return np.full(5, i, np.float32), i % 3


if __name__ == "__main__":
    def trained(**options):
        model, told = net(), []
        for _ in range(2):
            for x, label in DataLoader(Numbers(), batch_size=4, **options):
                told.append(float(model.train_one_batch(x.numpy(), label.numpy())[1]))
        return told

    alone = trained()
    print(len(alone))
    print(trained(num_workers=2, multiprocessing_context={how!r}) == alone)
"""
    )
    assert (first, second) == ("8", "True")


def test_interrupts_from_outside_end_a_training_and_no_more(run):
    """At many moments: while it compiles, replays, uploads and reads; eager, and elsewhere too."""
    told = run(
        TRAINING
        + """
import signal

x, labels = np.ones((4, 5), np.float32), np.arange(4) % 3


def attempt(model, after):
    signal.setitimer(signal.ITIMER_REAL, after, 0.1)  # once more where a destructor swallows it
    try:
        while True:
            float(model.train_one_batch(x, labels)[1])
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return "interrupted"
    except BaseException as error:
        return repr(error)


signal.signal(signal.SIGALRM, signal.default_int_handler)
places = [("opencl", True), ("opencl", False), ("cpu_numpy", True), ("cpu_numpy", False)]
for n in range(60):
    model = net(*places[n % 4])
    first = {name: p.numpy() for name, p in model.get_params().items()}
    print(attempt(model, 0.0005 * 1.25**(n % 20)), sc.grad_enabled(), sc.recording())
    try:
        float(model.train_one_batch(x, labels)[1])
        print("goes on")
    except sc.errors.StateLost:
        model.set_params(first)
        model.optimizer.set_states({}, model.get_params())
        float(model.train_one_batch(x, labels)[1])
        print("lost")
other = net()
print([float(net().train_one_batch(x, labels)[1]) == float(net().train_one_batch(x, labels)[1])])
"""
    )
    assert told[-1] == "[True]"
    assert told[:-1:2] == ["interrupted True False"] * 60
    assert set(told[1:-1:2]) <= {"goes on", "lost"}
