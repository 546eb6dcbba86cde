"""What recurrence/cuda.py decides and refuses before any kernel is compiled."""

import contextlib
import inspect
import sys
from types import SimpleNamespace

import pytest
import torch
from host.start import TYPES
from test_recurrence import make
from torch._subclasses import FakeTensorMode

from espnet_srupp.recurrence import cuda
from espnet_srupp.recurrence.operator import recurrence_forward

CARD = cuda.Card(132, shared_bytes=228 * 1024, copies_ahead=True)  # an H200's


@pytest.fixture
def launch(monkeypatch):
    """Returns what a launch asks `choose` for, what that chooses, and its warps."""

    def launch(kernel, x, v, inputs=(), bidirectional=False):
        def choose(*args):
            found.extend((args, cuda_choose(*args)))
            return found[-1]

        found = []
        monkeypatch.setattr(cuda, "choose", choose)
        monkeypatch.setattr(cuda, "_start", lambda *args: found.append(args[2]))
        cuda._launch(kernel, x, v, bidirectional, [*inputs], [], cuda.EVERY)
        return found

    cuda_choose = cuda.choose
    monkeypatch.setattr(cuda, "_card", lambda device: CARD)
    return launch


@pytest.mark.parametrize(
    ("B", "dtype", "forward", "backward"),
    [
        pytest.param(1, torch.float32, (1, 32), (1, 32), id="B1-float32"),
        pytest.param(1, torch.bfloat16, (2, 32), (2, 32), id="B1-bfloat16"),
        pytest.param(4, torch.float32, (2, 32), (2, 24), id="B4-float32"),
        pytest.param(4, torch.bfloat16, (2, 32), (2, 32), id="B4-bfloat16"),
        pytest.param(16, torch.float32, (2, 8), (2, 8), id="B16-float32"),
        pytest.param(16, torch.bfloat16, (2, 16), (2, 12), id="B16-bfloat16"),
        pytest.param(64, torch.float32, (2, 8), (2, 8), id="B64-float32"),
        pytest.param(64, torch.bfloat16, (4, 4), (4, 8), id="B64-bfloat16"),
    ],
)
def test_geometry_of_an_h200(B, dtype, forward, backward, launch):
    size = dtype.itemsize
    x, v = torch.empty(1, B, 3328, dtype=dtype), torch.empty(2, 3328)
    for kernel, expected, *given in (
        ("forward", forward, 4 * size, size, 1),
        ("backward", backward, 5 * size + 4 // cuda.EVERY, size, cuda.EVERY),
    ):
        asked, chosen, _ = launch(kernel, x, v)
        assert asked == (B * 3328, 16, *given, CARD)
        assert chosen == (*expected, 16)


def test_cards_that_copy_nothing_ahead_have_registers_for_two_channels():
    card = CARD._replace(copies_ahead=False)
    assert cuda.choose(64 * 3328, 16, 8, 2, 1, CARD).channels == 4
    assert cuda.choose(64 * 3328, 16, 8, 2, 1, card).channels == 2


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("D", "directions"),
    [(1, 1), (2, 1), (3, 1), (6, 1), (64, 1), (3328, 1), (12, 2), (3328, 2)],
)
@pytest.mark.parametrize("B", [1, 16, 4096])
@pytest.mark.parametrize(
    ("before_x", "before_c"),
    [(0, 0), (1, 1), (2, 2), (4, 4), (0, 1), (0, 2), (0, 4)],
)
def test_a_geometry_fits_the_tensors(
    before_x, before_c, B, D, directions, dtype, launch
):
    def after(skipped, dtype):
        return torch.empty(B * D + skipped, dtype=dtype)[skipped:].view(1, B, D)

    state = torch.float64 if dtype == torch.float64 else torch.float32
    x, c = after(before_x, dtype), after(before_c, state)
    v = torch.empty(2, D, dtype=state)
    # a kernel reads them by themselves, wherever they begin
    lengths = torch.empty(B + 1, dtype=torch.int64)[1:]
    inputs = x[:, :, None].expand(1, B, 3, D), x, v, lengths, c
    asked, chosen, warps = launch("forward", x, v, inputs, directions == 2)
    channels, frames, copied = chosen
    width, fetched = D // directions, asked[2]
    assert width % channels == 0
    assert all(t.data_ptr() % (channels * t.itemsize) == 0 for t in (x, v, c))
    for t in (x, c):
        assert width * t.itemsize % copied == t.data_ptr() % copied == 0
    begin_well = all(t.data_ptr() % cuda.WIDEST == 0 for t in (x, c))
    if begin_well and width * x.itemsize % cuda.WIDEST == 0:
        assert copied == cuda.WIDEST
    assert frames * channels * fetched * cuda.WARP <= cuda.RING_BYTES
    assert warps == B * directions * -(-width // (32 * channels))


def test_traced_code_is_told_how_many_states_are_saved():
    T, B, D = 9, 2, 4
    for device, states in (("cpu", T), ("cuda", cuda.saved(T))):
        with FakeTensorMode(), torch.device(device):
            u, x, v = torch.empty(T, B, 3, D), torch.empty(T, B, D), torch.empty(2, D)
            *_, c = recurrence_forward(u, x, v, v, None, None, None, False, True)
        assert c.shape == (states, B, D)


def test_signatures_are_those_of_the_cpu():
    from espnet_srupp.recurrence import cpu

    for name in ("forward", "backward"):
        functions = getattr(cpu, name), getattr(cuda, name)
        assert len({inspect.signature(function) for function in functions}) == 1


@pytest.mark.parametrize(("version", "extra"), [("12.8", "cuda12"), ("13.0", "cuda13")])
def test_a_missing_cupy_is_named_with_its_remedy(version, extra, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setitem(sys.modules, "cupy", None)
    message = rf"need CuPy; run pip install '\.\[{extra}\]' in the checkout"
    with pytest.raises(ImportError, match=message):
        cuda._cupy()


def test_a_cupy_that_fails_is_named_with_its_remedy(tmp_path, monkeypatch):
    """As that of another CUDA does, whose libraries are not here."""
    (tmp_path / "cupy.py").write_text("raise ImportError('libnvrtc.so.12')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(ImportError, match=r"need CuPy; run pip install '\.\[cuda13\]'"):
        cuda._cupy()


def test_a_cupy_without_a_folder_for_kernels_is_named(tmp_path, monkeypatch):
    (tmp_path / "cupy.py").write_text("raise PermissionError(13, 'denied', '/home/x')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(OSError, match="denied.*: let CUPY_CACHE_DIR name a folder"):
        cuda._cupy()


def test_kernels_that_cannot_be_kept_are_named(monkeypatch):
    class Module:
        def __init__(self, **_):
            pass

        def get_function(self, name):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(cuda, "_cupy", lambda: SimpleNamespace(RawModule=Module))
    with pytest.raises(OSError, match="No space left.*: let CUPY_CACHE_DIR name"):
        cuda._kernel.__wrapped__("forward<...>", torch.device("cuda", 0))


def test_another_gpus_torch_is_named(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(ImportError, match="this PyTorch is not built for CUDA"):
        cuda._cupy()


def test_no_row_is_no_launch(monkeypatch):
    monkeypatch.setattr(cuda, "_card", lambda device: CARD)
    monkeypatch.setattr(cuda, "_start", lambda *_: 1 / 0)
    u, x, v, b, _ = (t.detach() for t in make(4, 0, 8)[0].values())
    h, *_ = cuda.forward(u, x, v, b, None, None, None, False, False)
    assert h.shape == (4, 0, 8)


@pytest.mark.parametrize("index", [0, 1])
def test_a_launch_is_on_the_gpu_of_its_tensors_and_in_its_stream(index, monkeypatch):
    """Kernels know the GPU that was current as they were loaded, streams theirs."""
    current, made, launched = [0], [], []

    class Module:
        def __init__(self, code, options, name_expressions):
            made.append((options, tuple(name_expressions), current[0]))

        def get_function(self, name):
            def kernel(*args, stream):
                launched.append((loaded, current[0], *args, stream.ptr))

            loaded = current[0]
            return SimpleNamespace(kernel=kernel)

    @contextlib.contextmanager
    def on(device):
        before, current[0] = current[0], device.index
        yield
        current[0] = before

    def current_stream(device=None):
        number = current[0] if device is None else device.index
        return SimpleNamespace(cuda_stream=10 + number)

    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "current_stream", current_stream)
    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(cuda, "_cupy", lambda: SimpleNamespace(RawModule=Module))
    order = (index, 1 - index, index)
    cuda._kernel.cache_clear()
    for gpu in order:
        cuda._start("forward<...>", torch.device("cuda", gpu), 7, (1, 2))
    cuda._kernel.cache_clear()
    grid = (7,), (cuda.WARP,), (1, 2)
    assert launched == [(gpu, gpu, *grid, 10 + gpu) for gpu in order]
    assert made == [(cuda.OPTIONS, ("forward<...>",), gpu) for gpu in order[:2]]
    assert current == [0]


@pytest.mark.parametrize(("major", "ahead"), [(7, False), (8, True), (9, True)])
def test_cards_since_the_a100_copy_ahead(major, ahead, monkeypatch):
    properties = SimpleNamespace(
        major=major,
        multi_processor_count=108,
        shared_memory_per_multiprocessor=164 * 1024,
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    card = cuda._card.__wrapped__(torch.device("cuda", 0))
    assert card.copies_ahead == ahead
