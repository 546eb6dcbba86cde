"""The recurrence: every backend equals the reference, forward and each gradient."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.autograd import forward_ad

from espnet_srupp.recurrence import loops, recurrence, team

TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.bfloat16: 2e-2,
    torch.float16: 2e-3,
}
SHAPES = [  # T, B, D, lengths
    pytest.param(1, 1, 2, None, id="T1-B1-D2"),
    pytest.param(2, 3, 6, [2, 0, 1], id="T2-B3-D6-ragged"),
    pytest.param(63, 3, 64, [63, 1, 40], id="T63-B3-D64-ragged"),
    pytest.param(500, 1, 10, None, id="T500-B1-D10"),
    pytest.param(7, 2, 3328, [7, 5], id="T7-B2-D3328-ragged"),
    # both ways, each has a channel more than a block
    pytest.param(1, 1, 2050, None, id="T1-B1-D2050"),
    # both ways, each is a block with all the channels that it can have
    pytest.param(2, 1, 2048, None, id="T2-B1-D2048"),
    pytest.param(5, 3, 8, [0, 0, 0], id="T5-B3-D8-all-padding"),
    pytest.param(0, 2, 4, None, id="T0-B2-D4"),
]


def make(T, B, D, lengths=None, dtype=torch.float64):
    state = torch.float64 if dtype == torch.float64 else torch.float32
    tensors = {
        "u": torch.randn(T, B, 3, D).to(dtype),
        "x": torch.randn(T, B, D).to(dtype),
        "v": torch.randn(2, D, dtype=state),
        "b": torch.randn(2, D, dtype=state),
        "c0": torch.randn(B, D, dtype=state),
    }
    lengths = None if lengths is None else torch.tensor(lengths)
    return {k: t.requires_grad_() for k, t in tensors.items()}, lengths


def run(tensors, lengths, **options):
    """Outputs and the gradients of a fixed random projection of them, by name."""
    h, c_last = recurrence(*tensors.values(), lengths, **options)
    grads = torch.autograd.grad(
        project(h, c_last), list(tensors.values()), materialize_grads=True
    )
    names = [f"d{name}" for name in tensors]
    return {"h": h, "c_last": c_last} | dict(zip(names, grads, strict=True))


def project(*outputs):
    torch.manual_seed(1)
    return sum((t * torch.randn(t.shape).to(t.dtype)).sum() for t in outputs)


def assert_equal(actual, expected, tolerance):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        scale = max(1.0, value.abs().max().item()) if value.numel() else 1.0
        torch.testing.assert_close(
            actual[name].double(),
            value.double(),
            rtol=0,
            atol=tolerance * scale,
            msg=lambda text, name=name: f"{name}: {text}",
        )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("masked", [False, True], ids=["no-mask", "mask"])
@pytest.mark.parametrize(("T", "B", "D", "lengths"), SHAPES)
def test_cpu_equals_reference(
    T, B, D, lengths, masked, bidirectional, dtype, poisoned_memory
):
    tensors, lengths = make(T, B, D, lengths, dtype)
    mask_c = torch.rand(B, D, dtype=dtype) * 2 if masked else None
    options = {"bidirectional": bidirectional, "mask_c": mask_c}
    actual = run(tensors, lengths, backend="cpu", **options)
    wide = {k: t.detach().double().requires_grad_() for k, t in tensors.items()}
    options["mask_c"] = None if mask_c is None else mask_c.double()
    expected = run(wide, lengths, backend="reference", **options)
    assert_equal(actual, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_keep_a_float32_state(dtype, poisoned_memory):
    tensors, lengths = make(40, 3, 16, [40, 0, 21], dtype)
    actual = run(tensors, lengths, bidirectional=True)
    expected = run(tensors, lengths, bidirectional=True, backend="reference")
    for results in (actual, expected):
        assert results["h"].dtype == results["du"].dtype == dtype
        assert results["c_last"].dtype == torch.float32
    assert_equal(actual, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradcheck(backend, bidirectional):
    tensors, lengths = make(5, 3, 4, [5, 0, 3])
    mask_c = torch.rand(3, 4, dtype=torch.float64)

    def function(*values):
        return recurrence(
            *values,
            lengths,
            bidirectional=bidirectional,
            mask_c=mask_c,
            backend=backend,
        )

    assert torch.autograd.gradcheck(function, list(tensors.values()))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_padding_is_not_read_and_comes_out_zero(backend, poisoned_memory):
    lengths = [9, 0, 4]
    tensors, lengths_ = make(9, 3, 6, lengths)
    clean = run(tensors, lengths_, bidirectional=True, backend=backend)
    dirty = {k: t.detach().clone() for k, t in tensors.items()}
    for row, length in enumerate(lengths):
        dirty["u"][length:, row] = float("nan")
        dirty["x"][length:, row] = float("inf")
    dirty = {k: t.requires_grad_() for k, t in dirty.items()}
    assert_equal(
        run(dirty, lengths_, bidirectional=True, backend=backend), clean, tolerance=0
    )
    for row, length in enumerate(lengths):
        for name in ("h", "du", "dx"):
            assert not clean[name][length:, row].any()


def test_a_row_alone_is_bit_equal_to_the_row_in_a_batch():
    tensors, lengths = make(30, 3, 64, [30, 12, 21], torch.float32)
    h, c_last = recurrence(*tensors.values(), lengths, bidirectional=True)
    for row, n in enumerate(lengths.tolist()):
        u, x, v, b, c0 = (t.detach() for t in tensors.values())
        alone, c_alone = recurrence(
            u[:n, row : row + 1],
            x[:n, row : row + 1],
            v,
            b,
            c0[row : row + 1],
            bidirectional=True,
        )
        assert torch.equal(alone[:, 0], h[:n, row])
        assert torch.equal(c_alone[0], c_last[row])


def test_a_nan_frame_stays_in_its_own_column():
    tensors, _ = make(6, 2, 4)
    with torch.no_grad():
        tensors["u"][2, 0, 0, 1] = float("nan")
        h, _ = recurrence(*tensors.values())
    expected = torch.zeros(6, 2, 4, dtype=torch.bool)
    expected[2:, 0, 1] = True
    assert torch.equal(h.isnan(), expected)


def test_two_passes_with_the_state_carried_equal_one():
    tensors, _ = make(20, 2, 6)
    u, x, v, b, c0 = tensors.values()
    h, c_last = recurrence(u, x, v, b, c0)
    first, c = recurrence(u[:7], x[:7], v, b, c0)
    second, c = recurrence(u[7:], x[7:], v, b, c)
    assert torch.equal(torch.cat([first, second]), h)
    assert torch.equal(c, c_last)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_without_c0_and_lengths_means_zero_state_and_all_frames(backend):
    tensors, _ = make(8, 2, 4)
    u, x, v, b, _ = tensors.values()
    zeros, full = torch.zeros(2, 4, dtype=u.dtype), torch.tensor([8, 8])
    expected = recurrence(u, x, v, b, zeros, full, backend=backend)
    found = recurrence(u, x, v, b, backend=backend)
    for actual, e in zip(found, expected, strict=True):
        assert torch.equal(actual, e)


def test_without_frames_no_saved_state_is_read(monkeypatch):
    # compiled code does not check its indices
    monkeypatch.setattr(loops, "backward", loops.backward.py_func)
    tensors, lengths = make(0, 2, 4)
    run(tensors, lengths)


@pytest.mark.parametrize("start", [0.0, 1.0])
@pytest.mark.parametrize("magnitude", [1e-40, 1e4, 3e38])
def test_finite_input_gives_finite_output(magnitude, start):
    tensors, lengths = make(12, 2, 8, [12, 5], torch.float32)
    with torch.no_grad():
        tensors["c0"].mul_(start)
        for tensor in tensors.values():
            tensor.mul_(magnitude).clamp_(-3e38, 3e38)
        tensors["u"][:, :, 2].clamp_(-1e30, 1e30)
        tensors["x"].clamp_(-1e30, 1e30)
    h, c_last = recurrence(*tensors.values(), lengths)
    assert h.isfinite().all()
    assert c_last.isfinite().all()


def test_strided_inputs_equal_contiguous_ones():
    tensors, lengths = make(9, 3, 8, [9, 2, 5])
    expected = run(tensors, lengths)
    strided = {
        k: t.detach().mT.contiguous().mT.requires_grad_() for k, t in tensors.items()
    }
    assert not strided["u"].is_contiguous()
    assert_equal(run(strided, lengths), expected, tolerance=0)


def test_bit_equal_for_any_number_of_threads_and_from_run_to_run():
    tensors, lengths = make(50, 3, 2100, [50, 20, 33], torch.float32)
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2, 3, 5, 2):
        torch.set_num_threads(threads)
        results.append(run(tensors, lengths, bidirectional=True))
    torch.set_num_threads(before)
    for result in results[1:]:
        assert_equal(result, results[0], tolerance=0)


# in processes of their own, where nothing has started autograd's threads yet
FORK_AFTER = """
import os, torch
from espnet_srupp.recurrence import recurrence
torch.set_num_threads(2)
def compute():
    sizes = (8, 3, 3, 32), (8, 3, 32), (2, 32), (2, 32)
    torch.manual_seed(0)
    u, *rest = [torch.randn(size, requires_grad=True) for size in sizes]
    h, _ = recurrence(u, *rest, lengths=torch.tensor([8, 2, 5]))
    h.sum().backward()
    return u.grad
expected = compute()
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(not torch.equal(compute(), expected))
"""
FORK_BEFORE = """
import os, torch
from espnet_srupp.recurrence import recurrence
torch.set_num_threads(2)
sizes = (20, 4, 3, 4096), (20, 4, 4096), (2, 4096), (2, 4096)
tensors = [torch.ones(size) for size in sizes]
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
else:
    recurrence(*tensors)
    os._exit(0)
"""


@pytest.mark.once
@pytest.mark.parametrize("script", [FORK_AFTER, FORK_BEFORE], ids=["after", "before"])
def test_a_forked_child_computes_after_its_parent_did_and_before(script):
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


class Frames(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        tensors, _ = make(6, 3, 16)
        with torch.no_grad():
            return recurrence(*(torch.ones_like(t) for t in tensors.values()))[0]


def test_dataloader_workers_compute():
    expected = Frames()[0]
    loader = torch.utils.data.DataLoader(Frames(), batch_size=None, num_workers=2)
    for h in loader:
        assert torch.equal(h, expected)


def test_threads_of_the_caller_do_not_disturb_each_other():
    tensors, lengths = make(20, 3, 256, [20, 3, 11])
    values = [t.detach() for t in tensors.values()]
    expected, _ = recurrence(*values, lengths)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(recurrence, *values, lengths) for _ in range(20)]
        for job in jobs:
            assert torch.equal(job.result()[0], expected)


@pytest.mark.parametrize("name", ["u", "x", "v", "b", "c0"])
def test_a_tangent_of_any_one_tensor_is_refused(name):
    tensors, _ = make(4, 2, 6)
    given = {key: tensor.detach() for key, tensor in tensors.items()}
    with forward_ad.dual_level(), torch.no_grad():
        given[name] = forward_ad.make_dual(given[name], torch.ones_like(given[name]))
        with pytest.raises(NotImplementedError, match='pass backend="reference"'):
            recurrence(**given)


def test_threads_share_the_blocks_of_all_rows(monkeypatch):
    jobs = []
    monkeypatch.setattr(team, "share", lambda n, work: [jobs.append(n), work(0, 1)])
    tensors, _ = make(3, 5, 2100)
    u, x, v, b, _ = (tensor.detach() for tensor in tensors.values())
    recurrence(u, x, v, b, bidirectional=True)
    assert jobs == [2 * 2 * 5]
