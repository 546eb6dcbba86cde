"""The recurrence on a GPU, through CuPy: `pytest -m requires_cuda`."""

import sys

import pytest
import torch
from host.start import CHOSEN, GEOMETRIES, TYPES
from test_cuda_source import SHAPES, SIGMOID_BOUND, always, sigmoid
from test_recurrence import TOLERANCE, assert_equal, make

from espnet_srupp.recurrence import cuda, recurrence
from espnet_srupp.recurrence.operator import recurrence_forward

pytestmark = pytest.mark.requires_cuda

LARGER = [
    pytest.param(500, 3, 64, [0, 1, 500], (4, 8), id="T500-B3-D64-ragged"),
    pytest.param(9, 3, 3328, [5, 9, 1], (2, 12), id="T9-B3-D3328-ragged"),
]


def to(device, tensors):
    return {k: t.detach().to(device).requires_grad_() for k, t in tensors.items()}


def project(*outputs):
    """A sum of outputs with weights that are the same numbers on every device."""
    torch.manual_seed(1)
    weights = [torch.randn(t.shape, dtype=torch.float64).to(t) for t in outputs]
    return sum((t * w).sum() for t, w in zip(outputs, weights, strict=True))


def run(tensors, **options):
    """Outputs and gradients, by name, on the CPU; `tensors` tell the device."""
    h, c_last = recurrence(**tensors, **options)
    grads = torch.autograd.grad(
        project(h, c_last), list(tensors.values()), materialize_grads=True
    )
    names = ["h", "c_last", *(f"d{name}" for name in tensors)]
    values = [t.detach().cpu() for t in (h, c_last, *grads)]
    return dict(zip(names, values, strict=True))


def gpu(lengths):
    return None if lengths is None else lengths.cuda()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("full", [False, True], ids=["bare", "c0-and-mask"])
@pytest.mark.parametrize(("T", "B", "D", "lengths", "geometry"), SHAPES + LARGER)
def test_cuda_equals_reference(
    T, B, D, lengths, geometry, full, bidirectional, dtype, monkeypatch, poisoned_memory
):
    if bidirectional and D % 2:
        pytest.skip("D is odd")
    monkeypatch.setattr(cuda, "choose", always(geometry))
    tensors, lengths = make(T, B, D, lengths, dtype)
    # a large v amplifies rounding from frame to frame, whoever rounds
    tensors["v"].detach().mul_(0.3)
    mask_c = torch.rand(B, D) * 2 if full else None
    if not full:
        del tensors["c0"]
    options = {"bidirectional": bidirectional}
    actual = run(
        to("cuda", tensors), lengths=gpu(lengths), mask_c=gpu(mask_c), **options
    )
    if dtype == torch.float32:
        tensors = {k: t.detach().double().requires_grad_() for k, t in tensors.items()}
    options |= {"lengths": lengths, "mask_c": mask_c, "backend": "reference"}
    assert_equal(actual, run(tensors, **options), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_a_geometry_changes_no_bit(dtype, monkeypatch):
    tensors, lengths = make(70, 3, 32, [70, 1, 33], dtype)
    tensors, lengths = to("cuda", tensors), lengths.cuda()
    results = []
    geometries = {*CHOSEN, *GEOMETRIES}
    for geometry in geometries:
        monkeypatch.setattr(cuda, "choose", always(geometry, geometries))
        results.append(run(tensors, lengths=lengths, bidirectional=True))
    for result in results[1:]:
        assert_equal(result, results[0], tolerance=0)


def test_a_sigmoid_is_within_its_bound():
    for limit in (1, 10, 100):
        a = torch.linspace(-limit, limit, 2**22, device="cuda")
        error = (sigmoid(a).double() - torch.sigmoid(a.double())).abs().max()
        assert error < SIGMOID_BOUND


@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradcheck(bidirectional):
    tensors, lengths = make(5, 3, 4, [5, 0, 3])
    mask_c = torch.rand(3, 4, dtype=torch.float64).cuda()

    def function(*values):
        return recurrence(
            *values, lengths.cuda(), bidirectional=bidirectional, mask_c=mask_c
        )

    assert torch.autograd.gradcheck(function, list(to("cuda", tensors).values()))


def test_two_runs_are_bit_equal():
    tensors, lengths = make(300, 16, 512, [300] * 8 + [7] * 8, torch.bfloat16)
    tensors, lengths = to("cuda", tensors), lengths.cuda()
    expected = run(tensors, lengths=lengths, bidirectional=True)
    for _ in range(5):
        actual = run(tensors, lengths=lengths, bidirectional=True)
        assert_equal(actual, expected, tolerance=0)


def test_a_row_alone_is_bit_equal_to_the_row_in_a_batch():
    tensors, _ = make(40, 64, 3328, dtype=torch.float32)
    u, x, v, b, c0 = (t.detach() for t in to("cuda", tensors).values())
    h, c_last = recurrence(u, x, v, b, c0, bidirectional=True)
    alone, c_alone = recurrence(u[:, 5:6], x[:, 5:6], v, b, c0[5:6], bidirectional=True)
    assert torch.equal(alone[:, 0], h[:, 5])
    assert torch.equal(c_alone[0], c_last[5])


def test_launches_wait_for_torchs_stream():
    tensors, _ = make(50, 4, 64, dtype=torch.float32)
    ready = to("cuda", tensors)
    expected = run(ready)
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        late = {k: torch.zeros_like(t, requires_grad=True) for k, t in ready.items()}
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10**8)
            for name, tensor in late.items():
                tensor.detach().copy_(ready[name].detach())
            actual = run(late)
        assert_equal(actual, expected, tolerance=0)


def test_two_streams_at_once():
    inputs, streams, outputs = [], [], []
    for _ in range(2):
        tensors, _ = make(400, 2, 3328, dtype=torch.float32)
        inputs.append([t.detach() for t in to("cuda", tensors).values()])
        streams.append(torch.cuda.Stream())
    expected = [recurrence(*values)[0] for values in inputs]
    torch.cuda.synchronize()
    for _ in range(10):
        for stream, values in zip(streams, inputs, strict=True):
            with torch.cuda.stream(stream):
                outputs.append(recurrence(*values)[0])
    torch.cuda.synchronize()
    for i, h in enumerate(outputs):
        assert torch.equal(h, expected[i % 2])


def test_a_cuda_graph_replays_forward_and_backward():
    tensors, lengths = make(30, 3, 64, [30, 2, 17], torch.float32)
    static, lengths = to("cuda", tensors), lengths.cuda()

    def step():
        h, c_last = recurrence(**static, lengths=lengths, bidirectional=True)
        ones = torch.ones_like(h), torch.ones_like(c_last)
        return h, *torch.autograd.grad((h, c_last), list(static.values()), ones)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = step()
    for tensor in static.values():
        tensor.detach().normal_()
    graph.replay()
    for actual, expected in zip(replayed, step(), strict=True):
        assert torch.equal(actual, expected)


def test_nothing_waits_for_the_gpu():
    tensors, lengths = make(20, 3, 16, [20, 0, 9], torch.float32)
    values = list(to("cuda", tensors).values())
    lengths = lengths.cuda()
    recurrence(*values, lengths)[0].sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        recurrence(*values, lengths)[0].sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_second_gpu_that_is_not_the_current_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    tensors, lengths = make(20, 3, 16, [20, 0, 9], torch.float32)
    results = [
        run(to(device, tensors), lengths=lengths.to(device), bidirectional=True)
        for device in ("cuda:0", "cuda:1")
    ]
    assert torch.cuda.current_device() == 0
    assert_equal(results[1], results[0], tolerance=0)


def test_offsets_beyond_32_bits():
    T, B, D = 3500, 64, 3328
    assert 3 * T * B * D > 2**31
    if torch.cuda.mem_get_info()[0] < 32 * 2**30:
        pytest.skip("32 GB of GPU memory are not free")
    options = {"device": "cuda", "dtype": torch.bfloat16}
    u = torch.randn(T, B, 3, D, **options).requires_grad_()
    x = torch.randn(T, B, D, **options).requires_grad_()
    v, b = torch.randn(2, 2, D, device="cuda").mul(0.3).unbind()
    h, _ = recurrence(u, x, v, b, bidirectional=True)
    h.backward(torch.ones_like(h))
    for row in (0, B - 1):
        part = slice(row, row + 1)
        one_u, one_x = (t.detach()[:, part].requires_grad_() for t in (u, x))
        one, _ = recurrence(one_u, one_x, v, b, bidirectional=True)
        one.backward(torch.ones_like(one))
        assert torch.equal(one, h[:, part])
        assert torch.equal(one_u.grad, u.grad[:, part])
        assert torch.equal(one_x.grad, x.grad[:, part])


def test_compiled_without_a_graph_break():
    tensors, lengths = make(12, 2, 8, [12, 7], torch.float32)
    tensors, lengths = to("cuda", tensors), lengths.cuda()

    def double(**values):
        h, c_last = recurrence(**values, lengths=lengths, bidirectional=True)
        return 2 * h, c_last

    results = []
    for function in (
        double,
        torch.compile(double, fullgraph=True, backend="aot_eager"),
    ):
        outputs = function(**tensors)
        grads = torch.autograd.grad(
            outputs, list(tensors.values()), [torch.ones_like(t) for t in outputs]
        )
        results.append([*outputs, *grads])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)


def test_the_operator_keeps_torchs_contract():
    # the state saved for the backward pass is not defined at padded frames
    for lengths, save_c in (([6, 6, 6], True), ([6, 0, 2], False)):
        tensors, lengths = make(6, 3, 4, lengths)
        values = [t.requires_grad_(save_c) for t in to("cuda", tensors).values()]
        args = (*values, lengths.cuda(), None, True, save_c)
        torch.library.opcheck(recurrence_forward, args)


def test_checkpointed_gradients_are_bit_equal():
    tensors, lengths = make(12, 2, 8, [12, 7], torch.float32)
    tensors, lengths = to("cuda", tensors), lengths.cuda()
    expected = run(tensors, lengths=lengths)
    outputs = torch.utils.checkpoint.checkpoint(
        recurrence, *tensors.values(), lengths, use_reentrant=False
    )
    grads = torch.autograd.grad(project(*outputs), list(tensors.values()))
    for name, grad in zip(tensors, grads, strict=True):
        assert torch.equal(grad.cpu(), expected[f"d{name}"])


def test_strided_and_unaligned_inputs_equal_contiguous_ones():
    tensors, lengths = make(9, 3, 8, [9, 2, 5], torch.bfloat16)
    tensors, lengths = to("cuda", tensors), lengths.cuda()
    expected = run(tensors, lengths=lengths, bidirectional=True)
    strided = {k: t.detach().mT.contiguous().mT for k, t in tensors.items()}
    unaligned = {
        k: torch.cat([t.detach().flatten()[:1], t.detach().flatten()])[1:].view_as(t)
        for k, t in tensors.items()
    }
    assert unaligned["x"].data_ptr() % 4 == 2
    for values in (strided, unaligned):
        values = {k: t.requires_grad_() for k, t in values.items()}
        actual = run(values, lengths=lengths, bidirectional=True)
        assert_equal(actual, expected, tolerance=0)


def test_lengths_out_of_range_are_clamped():
    tensors, _ = make(6, 3, 4)
    values = [t.detach() for t in to("cuda", tensors).values()]
    wild, fit = (torch.tensor(n).cuda() for n in ([7, -1, 2**40], [6, 0, 6]))
    for actual, expected in zip(
        recurrence(*values, wild), recurrence(*values, fit), strict=True
    ):
        assert torch.equal(actual, expected)


def test_lengths_left_on_the_cpu_are_named():
    tensors, lengths = make(6, 3, 4, [6, 0, 2])
    with pytest.raises(ValueError, match="lengths is on cpu, u on cuda:0; move them"):
        recurrence(**to("cuda", tensors), lengths=lengths)


def test_without_cupy_a_gpu_tensor_is_an_error(monkeypatch):
    tensors, _ = make(6, 3, 4)
    monkeypatch.setitem(sys.modules, "cupy", None)
    # not one that is loaded already
    monkeypatch.setattr(cuda, "_kernel", cuda._kernel.__wrapped__)
    with pytest.raises(ImportError, match="need CuPy; run pip install"):
        recurrence(**to("cuda", tensors))
