"""Files that are damaged, disks that are full, processes that die: the old file or a typed error."""

import errno
import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import safetensors.numpy

from house import counts
from nets import Net, batch, made
from singa_core import opt
from singa_core.errors import SingaError
from singa_core.io import container
from singa_core.io.checkpoint import load, save
from singa_core.io.container import FileDamaged, ForeignFile, FormatTooNew, NotSaved

DATA = "state.safetensors"
TESTS = Path(__file__).resolve().parent.parent


def bits(model):
    return {name: cell.numpy().tobytes() for name, cell in model.get_states().items()}


def trained(steps=2):
    model = made("cpu_numpy", opt.Adam(0.01))
    for i in range(steps):
        model.train_one_batch(*batch("cpu_numpy", seed=i))
    return model


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a good file of some 20 kB."""
    path = tmp_path_factory.mktemp("whole") / "model"
    save(trained(), path, {"loader": {"epoch": 3}, "text": "x" * 15000})
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.ckpt"


def told(data):
    """What the reader says of these bytes."""
    with pytest.raises(FileDamaged) as caught:
        container._read("model.ckpt", io.BytesIO(data))
    error = caught.value
    assert str(error).startswith(f"model.ckpt: {error.member} is damaged: {error.problem}")
    assert error.problem
    return error


# -- damaged files ------------------------------------------------------------------------------------


def test_the_file_is_good_to_begin_with(whole):
    manifest, members = container._read("", io.BytesIO(whole))
    assert manifest["state"]["loader"] == {"epoch": 3}
    assert len(members[DATA]) > 1500
    assert len(whole) > 15000


def test_a_file_cut_anywhere_is_damaged(whole, path):
    lengths = [*range(0, len(whole), 1000), *range(len(whole) - 300, len(whole))]
    for length in lengths:
        told(whole[:length])
    path.write_bytes(whole[:2000])
    model = Net()
    with pytest.raises(FileDamaged, match="model.ckpt: the zip's headers and directory is damaged"):
        load(model, path)
    assert model.body.steps[0].weight.shape == (None, 8)
    counts.counted("cuts of a file noticed", len(lengths))


def regions(data):
    """Name -> where its bytes are: members, their headers, the directory, its end, the seal."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos, directory = archive.infolist(), archive.start_dir
    found = {}
    for info in infos:
        start = info.header_offset + 30 + len(info.filename)
        found[f"header of {info.filename}"] = range(info.header_offset, start)
        found[info.filename] = range(start, start + info.file_size)
    end = len(data) - 64
    found |= {"directory": range(directory, end - 22), "end": range(end - 22, end)}
    found["seal"] = range(end, len(data))
    assert sum(map(len, found.values())) == len(data)
    return found


def test_every_one_of_1000_flipped_bits_is_noticed(whole):
    rng, seen = random.Random(0), Counter()
    places = list(regions(whole).items())
    for number in range(1000):
        name, where = places[number % len(places)]
        byte, bit = rng.choice(where), rng.randrange(8)
        data = bytearray(whole)
        data[byte] ^= 1 << bit
        error = told(bytes(data))
        seen[name] += 1
        if name == DATA:
            assert error.member == DATA
            assert "CRC-32" in error.problem
        elif name == container.MANIFEST:
            assert error.member == container.MANIFEST
        else:
            assert error.member in (container.HEADERS, container.MANIFEST)
    assert len(seen) == 7
    assert min(seen.values()) > 140
    counts.counted("bit flips noticed", 1000)


def test_every_byte_of_headers_directory_and_seal_is_under_a_check(whole):
    """Also those that zip itself does not read: times, versions, attributes."""
    for name, where in regions(whole).items():
        if name not in (DATA, container.MANIFEST):
            for byte in where:
                data = bytearray(whole)
                data[byte] ^= 0x10
                told(bytes(data))


def test_damage_that_the_crc_would_not_see_is_seen(whole):
    """A CRC-32 says nothing about who wrote the file; the manifest's SHA-256 does."""
    manifest, members = container._read("", io.BytesIO(whole))
    other = members[DATA][:-1] + bytes([members[DATA][-1] ^ 1])
    file = io.BytesIO()
    container._pack(file, {container.MANIFEST: json.dumps(manifest).encode(), DATA: other})
    error = told(file.getvalue())
    assert (error.member, error.problem) == (DATA, "its size or SHA-256 is not the manifest's")


def packed(contents):
    file = io.BytesIO()
    container._pack(file, contents)
    return file.getvalue()


@pytest.mark.parametrize(("change", "member", "problem"), [
    (lambda m, c: c.pop(DATA), DATA, "it is 0 times in the file"),
    (lambda m, c: c.update({"more": b"x"}), "more", "the manifest does not know it"),
    (lambda m, c: m.pop("members"), "manifest.json", "it lists no members"),
    (lambda m, c: m.pop("format"), "manifest.json", "'format'"),
    (lambda m, c: m.update(format=0), "manifest.json", "no such format: 0"),
    (lambda m, c: m.update(format="1"), "manifest.json", "no such format: '1'"),
    (lambda m, c: m.update(format=True), "manifest.json", "no such format: True"),
    (lambda m, c: m["members"][DATA].update(bytes=3), DATA, "its size or SHA-256"),
], ids=range(8))  # fmt: skip
def test_a_manifest_that_does_not_agree(whole, change, member, problem):
    manifest, members = container._read("", io.BytesIO(whole))
    change(manifest, members)
    error = told(packed({container.MANIFEST: json.dumps(manifest).encode(), **members}))
    assert error.member == member
    assert error.problem.startswith(problem)


@pytest.mark.parametrize("data", [b"", b"PK", bytes(5000), packed({})])
def test_what_may_have_been_a_checkpoint(data):
    told(data)


def foreign(kind):
    """A file that somebody else has written, and what is said of it."""
    file = io.BytesIO()
    if kind == "npz":
        np.savez(file, weight=np.ones(3))
        return file.getvalue(), "a zip of something else"
    if kind == "torch":
        pytest.importorskip("torch", reason="an oracle").save({"weight": 1}, file)
        return file.getvalue(), "a zip of something else"
    data = {
        "letter": b"x", "text": b"hello" * 500, "pickle": pickle.dumps({"weight": [1.0] * 50}),
        "safetensors": safetensors.numpy.save({"weight": np.ones(3)}), "hdf5": b"\x89HDF\r\n\x1a\n" * 9,
    }[kind]  # fmt: skip
    return data, f"one that begins with {data[:8]!r}"


@pytest.mark.parametrize(
    "kind", ["letter", "text", "pickle", "safetensors", "hdf5", "npz", "torch"]
)
def test_a_file_of_something_else_is_not_called_damaged(kind, path):
    data, got = foreign(kind)
    path.write_bytes(data)
    model = trained(1)
    before = bits(model)
    with pytest.raises(ForeignFile) as caught:
        load(model, path)
    assert isinstance(caught.value, FileDamaged)
    assert str(caught.value) == f"{path}: needs a file that singa-core has saved, got {got}"
    assert bits(model) == before
    assert path.read_bytes() == data


def test_other_zips_are_no_checkpoints(whole):
    manifest, members = container._read("", io.BytesIO(whole))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr(container.MANIFEST, json.dumps(manifest))
            archive.writestr(DATA, members[DATA])
        assert told(file.getvalue()).problem == "it does not end with a directory and a seal"


def test_tensors_that_are_none_are_named(path):
    header = json.dumps({"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}).encode()
    unknown = struct.pack("<Q", len(header)) + header + b"\0"
    for data, problem in ((b"nonsense" * 9, "SafetensorError"), (unknown, "KeyError: 'F8_E4M3'")):
        container.write(path, {}, {DATA: data})
        with pytest.raises(FileDamaged, match=f"{DATA} is damaged: {problem}"):
            load(Net(), path)
    container.write(path, {}, {"other": b""})
    with pytest.raises(FileDamaged, match=f"{DATA} is damaged: it is not in the file"):
        load(Net(), path)


def test_a_newer_format_says_what_to_do(whole, path):
    manifest, members = container._read("", io.BytesIO(whole))
    manifest |= {"format": 2, "version": "7.8"}
    del manifest["members"]  # nobody knows what it will look like
    path.write_bytes(packed({container.MANIFEST: json.dumps(manifest).encode(), "new": b"?"}))
    model = trained()
    before = bits(model)
    with pytest.raises(FormatTooNew) as caught:
        load(model, path, include_state=True)
    assert str(caught.value) == (
        f"{path}: needs format <= 1, got 2, written by singa-core 7.8; "
        f"this is {container.library_version()}\ntry: pip install --upgrade singa-core"
    )
    assert bits(model) == before


def test_a_damaged_file_changes_nothing(whole, path):
    model = trained(3)
    slots = model.optimizer.get_states(model.get_params())
    before, steps = bits(model), slots["steps"]
    data = bytearray(whole)
    data[regions(whole)[DATA][-1]] ^= 1
    path.write_bytes(data)
    for options in ({}, {"include_state": True}, {"strict": True}):
        with pytest.raises(FileDamaged, match=f"model.ckpt: {DATA} is damaged: Bad CRC-32"):
            load(model, path, **options)
    assert (bits(model), model.optimizer.steps.value) == (before, steps)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(Net(), tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        load(Net(), tmp_path)


# -- disks that are full ------------------------------------------------------------------------------


class Failing(io.FileIO):
    """A file whose n-th write fails, after half of it."""

    at = 0

    def write(self, data):
        Failing.at -= 1
        if Failing.at == 0:
            super().write(bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.fixture
def old(path):
    """A good file, which has to outlive everything that follows."""
    save(trained(1), path, {"old": True})
    data = path.read_bytes()
    yield data
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == data


def test_a_full_disk_leaves_the_old_file(old, path, monkeypatch):
    model, text = (
        trained(),
        rf"^{path}: not saved: No space left on device\n  what was there before ",
    )
    monkeypatch.setattr(container.os, "fdopen", lambda fd, mode: Failing(fd, "w+"))
    Failing.at = 0
    save(model, path.with_name("probe"))
    path.with_name("probe").unlink()
    writes = -Failing.at
    assert writes > 5
    for number in range(1, writes + 1):
        Failing.at = number
        with pytest.raises(NotSaved, match=text) as caught:
            save(model, path)
        assert caught.value.__cause__.errno == errno.ENOSPC
        assert path.read_bytes() == old
    counts.counted("writes that failed", writes)


@pytest.mark.parametrize("name", ["open", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), PermissionError(errno.EACCES, "no")])  # fmt: skip
def test_a_call_that_fails_leaves_the_old_file(old, path, monkeypatch, name, error):
    def fail(*args, **options):
        raise error

    model = trained()
    monkeypatch.setattr(container.os, name, fail)
    with pytest.raises(
        NotSaved, match=rf"not saved: {error.strerror}\n  what was there before is "
    ):
        save(model, path)
    monkeypatch.undo()


def test_an_interrupt_in_the_middle_leaves_the_old_file(old, path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    model = trained()
    monkeypatch.setattr(container.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(model, path)
    monkeypatch.undo()


def test_a_folder_that_cannot_be_synced_is_told_apart(path, monkeypatch):
    save(trained(1), path)
    real, calls, model = os.fsync, [], trained()

    def fail_second(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(container.os, "fsync", fail_second)
    with pytest.raises(NotSaved, match="saved, but it may not outlast a crash: its folder: Input"):
        save(model, path)
    monkeypatch.undo()
    other = Net(opt.Adam(0.01))
    load(other, path, strict=True)
    assert bits(other) == bits(model)


@pytest.fixture
def links(tmp_path):
    """A folder in which symbolic links can be made."""
    try:
        (tmp_path / "probe").symlink_to("nowhere")
    except (OSError, NotImplementedError) as error:
        pytest.skip(f"no symbolic links here: {error}")
    (tmp_path / "probe").unlink()
    return tmp_path


@pytest.mark.parametrize("there", [True, False])
def test_what_a_link_leads_to_is_written_and_the_link_stays(links, there):
    (links / "runs").mkdir()
    if there:
        save(trained(1), links / "runs" / "best")
    (links / "latest").symlink_to(os.path.join("runs", "best"))
    (links / "again").symlink_to("latest")
    model, other = trained(3), Net(opt.Adam(0.01))
    save(model, links / "again")
    assert (links / "again").is_symlink()
    assert (links / "latest").is_symlink()
    assert not (links / "runs" / "best").is_symlink()
    load(other, links / "runs" / "best", strict=True)
    assert bits(other) == bits(model)
    assert sorted(p.name for p in links.rglob("*")) == ["again", "best", "latest", "runs"]


def test_links_that_lead_nowhere_are_told_by_the_name_that_was_given(links):
    (links / "a").symlink_to("b")
    (links / "b").symlink_to("a")
    with pytest.raises(NotSaved, match="a: not saved: its symbolic links lead to no file"):
        save(trained(1), links / "a")
    (links / "c").symlink_to(os.path.join("gone", "file"))
    with pytest.raises(NotSaved, match="c: not saved: No such file"):
        save(trained(1), links / "c")
    assert sorted(p.name for p in links.iterdir()) == ["a", "b", "c"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no special files on this system")
def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # devices are of this kind
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(NotSaved, match=f"{name}: not saved: it is no regular file"):
            save(trained(1), tmp_path / name)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "pipe"]


def test_a_folder_in_place_of_the_file(tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(NotSaved, match="there: not saved: it is a folder"):
        save(trained(1), tmp_path / "there")
    with pytest.raises(NotSaved, match="not saved: No such file or directory"):
        save(trained(1), tmp_path / "nowhere" / "x")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotSaved, match="not saved: Not a directory"):
        save(trained(1), tmp_path / "file" / "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "there"]


@pytest.mark.skipif(os.name == "nt", reason="folders have no such modes there")
def test_a_folder_that_may_not_be_written():
    model, root = trained(1), os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(model, folder / "x")
        data = (folder / "x").read_bytes()
        folder.chmod(0o555)
        if root:  # who may write everywhere: be somebody else
            os.seteuid(65534)
        try:
            with pytest.raises(NotSaved, match="not saved: Permission denied"):
                save(model, folder / "x")
        finally:
            if root:
                os.seteuid(0)
            folder.chmod(0o755)
        assert [(p.name, p.read_bytes()) for p in folder.iterdir()] == [("x", data)]


# -- processes that die -------------------------------------------------------------------------------

DIES = """
import io, os, sys, warnings
warnings.simplefilter("ignore")  # of fork, about threads that the child does not use
sys.path.insert(0, sys.argv[1])
from nets import made, batch
from singa_core import opt
from singa_core.io import container
from singa_core.io.checkpoint import save

folder, last = sys.argv[2], int(sys.argv[3])
model = made("cpu_numpy", opt.Adam(0.01))
for i in range(2):
    model.train_one_batch(*batch("cpu_numpy", seed=i))
at, events = 0, []

def stage(name):
    events.append(name)
    if len(events) == at:
        print(at, name, flush=True)
        os._exit(9)

class Dying(io.FileIO):
    def write(self, data):
        super().write(bytes(data)[: len(data) // 2])
        stage("in write")
        return len(data) // 2 + super().write(bytes(data)[len(data) // 2 :])

def dying(name, real):
    def call(*args, **options):
        stage(f"before {name}")
        made = real(*args, **options)
        stage(f"after {name}")
        return made
    return call

real = {name: getattr(os, name) for name in ("open", "fsync", "replace")}
for at in range(1, last + 1):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    container.os.fdopen = lambda fd, mode: Dying(fd, "w+")
    for name in real:
        setattr(container.os, name, dying(name, real[name]))
    save(model, f"{folder}/{at}/x")
    print(at, "done", flush=True)
    os._exit(0)
"""


def start(folder, stages):
    command = [sys.executable, "-c", DIES, str(TESTS), str(folder), str(stages)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked there")
def test_killed_at_every_stage_of_writing_the_old_file_or_the_new_one_is_whole(tmp_path):
    save(trained(1), tmp_path / "old", {"old": True})
    model, old = Net(opt.Adam(0.01)), (tmp_path / "old").read_bytes()
    wanted = {True: bits(trained(1)), False: bits(trained(2))}
    for at in range(1, 61):
        (tmp_path / str(at)).mkdir()
        (tmp_path / str(at) / "x").write_bytes(old)
    out, err = start(tmp_path, 60).communicate(timeout=120)
    stages = [line.partition(" ")[2] for line in out.splitlines()]
    assert len(stages) == 60, err
    for at, stage in enumerate(stages, 1):
        path = tmp_path / str(at) / "x"
        report = load(model, path, include_state=True, strict=True)
        is_old = report.state.get("old", False)
        assert bits(model) == wanted[is_old]
        assert (path.read_bytes() == old) is is_old
        assert is_old is (at <= stages.index("before replace") + 1), stage
    stages = stages[: stages.index("done")]
    writes = stages.count("in write")
    assert writes > 5
    assert stages == [
        "before open", "after open", *["in write"] * writes, "before fsync", "after fsync",
        "before replace", "after replace", "before open", "after open", "before fsync", "after fsync",
    ]  # fmt: skip
    counts.counted("stages of writing where the process was killed", len(stages))


def test_what_the_dead_leave_behind_is_swept_up_later(path):
    leftovers = [path.with_name(f".{path.name}.{number:08x}.part") for number in range(3)]
    others = [path.with_name(n) for n in (f".{path.name}.xyz.part", ".other.00000000.part")]
    for file in leftovers + others:
        file.write_bytes(b"half")
    for file in [*leftovers[:2], *others]:
        os.utime(file, (time.time() - 7200,) * 2)
    save(trained(1), path)
    left = {p.name for p in path.parent.iterdir()}
    assert left == {path.name, leftovers[2].name, *(p.name for p in others)}


def test_two_at_once_do_not_mix(path):
    """Each writes under a name of its own; the later rename wins."""
    models = [trained(steps) for steps in range(4)]
    threads = [
        Thread(target=lambda m=model: [save(m, path) for _ in range(20)]) for model in models
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            container.read(path)
    for thread in threads:
        thread.join()
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    model = Net(opt.Adam(0.01))
    load(model, path, include_state=True, strict=True)
    assert bits(model) in [bits(m) for m in models]


def test_the_errors_are_of_the_family():
    assert issubclass(FileDamaged, SingaError)
    assert issubclass(FileDamaged, ValueError)
    assert issubclass(NotSaved, SingaError)
    assert issubclass(NotSaved, OSError)
