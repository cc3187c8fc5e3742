"""Benchmarks: every peer trains the same network, and what is said of the work is right."""

import importlib.util
import io
import json
import sys

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import opencl
from benchmarks.driver import Peer, Row, compare, others
from benchmarks.models import network
from benchmarks.peers import ours, serve
from benchmarks.workloads import WORKLOADS, Cnn, Mlp, Resnet, Transformer
from singa_core import tensor

SMALL = {
    "mlp": Mlp(8, (12, 9, 10)),
    "cnn": Cnn(4, (3, 5), 7, 20),
    "resnet": Resnet(4, (4, 8), 8),
    "transformer": Transformer(2, layers=2, width=8, heads=2, hidden=12, length=6, tokens=11),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("part", ["step", "forward"])
@pytest.mark.parametrize("module", ["pytorch", "jax_jit", "numpy_mlp"])
def test_a_peer_computes_what_we_compute(name, part, module):
    needed = {"pytorch": "torch", "jax_jit": "jax", "numpy_mlp": "numpy"}[module]
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    if module == "numpy_mlp" and name != "mlp":
        pytest.skip("written by hand for the MLP only")
    peer = importlib.import_module(f"benchmarks.peers.{module}")
    options = ("eager",) if module == "pytorch" else ()
    calls = [peer.build(SMALL[name], part, *options)[0]]
    calls += [ours.build(SMALL[name], part, mode)[0] for mode in ("eager", "graph")]
    for i in range(4):
        theirs, eager, graph = (np.asarray(call(i)) for call in calls)
        np.testing.assert_array_equal(graph, eager)
        np.testing.assert_allclose(eager, theirs, rtol=1e-4, atol=1e-5)


def test_the_work_of_a_step_is_that_of_its_products():
    assert Mlp(8, (12, 9, 10)).forward_flops == 2 * 8 * (12 * 9 + 9 * 10)
    assert Mlp(8, (12, 9, 10)).step_flops == 2 * 8 * (2 * 12 * 9 + 3 * 9 * 10)
    cnn = 20 * 25 * 24**2, 50 * 500 * 8**2, 800 * 500, 500 * 10
    assert WORKLOADS["cnn"].step_flops == 2 * 64 * (3 * sum(cnn) - cnn[0])
    blocks = 2 * 64 * 64 * 9 * 1024 * 4
    assert Resnet(1, (64,)).forward_flops == 2 * 64 * 27 * 1024 + blocks + 2 * 64 * 10
    assert WORKLOADS["transformer"].step_flops == pytest.approx(42.7e9, rel=0.02)


@pytest.mark.parametrize("workload", SMALL.values(), ids=SMALL)
def test_our_models_have_the_parameters_of_the_workload(workload):
    model = network(workload, tensor(workload.batches()[0][0]))
    assert {name: p.shape for name, p in model.get_params().items()} == workload.shapes()


def test_the_driver_measures_in_turn_and_leaves_out_what_is_missing(capsys, monkeypatch):
    peers = [Peer("one", "gemm", calls=2), Peer("two", "gemm", needs=("no_such_module",))]
    rows = compare(peers, "mlp-small", "step", calls=1, blocks=2, threads=1, clock="cpu")
    assert capsys.readouterr().err == "left out: two, needs no_such_module\n"
    (row,) = rows
    assert (len(row.seconds), row.losses) == (2, [768.0] * 3)
    assert min(row.seconds) > 0
    text = "\n".join(command.section("mlp", "step", [row, row], threads=1, clock="cpu"))
    assert "| one |" in text
    assert "- ours, graph / PyTorch eager: not measured, wanted <= 1" in text


def test_a_table_tells_what_differs_and_what_is_missed():
    def row(name, seconds, loss):
        return Row(Peer(name, "ours"), [seconds] * 3, [loss] * 4)

    rows = [row(command.GRAPH, 3.0, 1.0), row(command.TORCH, 2.0, 1.1), row("product", 1.0, 768.0)]
    text = "\n".join(command.section("resnet", "step", rows, threads=2, clock="wall"))
    assert "- ours, graph / PyTorch eager: 1.50, wanted <= 1.3: MISSED" in text
    assert "- PyTorch eager COMPUTES SOMETHING ELSE: its results differ from those of ours" in text
    assert "2 threads, time of the clock" in text
    assert others(rows[:2]) == [command.TORCH]
    assert others([rows[0], row(command.JAX, 1.0, 1.001)]) == []


@pytest.fixture
def parts(monkeypatch):
    """Parts of the benchmark of OpenCL that tell only their clock; no process is started."""

    def part(setting):
        """A part."""
        yield f"- {setting.device} by {setting.clock}"

    monkeypatch.setattr(opencl, "child", lambda *args: "a driver")
    monkeypatch.setattr(opencl, "PARTS", {"step": part, "first step": part})


def test_one_part_of_the_benchmark_of_opencl_is_that_part_alone(parts, capsys):
    opencl.main(["--only", "step"])
    end = "\n## A part, 1 thread, CPU time\n- opencl by cpu\n"
    assert capsys.readouterr().out.endswith("- device: a driver\n" + end)
    opencl.main(["--threads", "2", "--device", "opencl:1"])
    end = "\n## A part, 2 threads, by the clock\n- opencl:1 by wall\n"
    assert capsys.readouterr().out.endswith("- device: a driver\n" + 2 * end)


def test_a_part_that_the_benchmark_of_opencl_does_not_have_is_refused(parts, capsys):
    with pytest.raises(SystemExit):
        opencl.main(["--only", "ste"])
    assert "argument --only: invalid choice: 'ste'" in capsys.readouterr().err


def test_a_peer_answers_line_by_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["", "mlp-small", "step", "graph"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("2\n1\n"))
    serve.serve(ours.build)
    told, *blocks = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(told) == {"about", "first"}
    assert [set(block) for block in blocks] == [{"wall", "cpu", "loss", "grown"}] * 2
