"""kernels/recurrence.cu without a GPU: as C++, and as what NVRTC makes of it.

The launcher is the real one, espnet_srupp/recurrence/cuda.py, with tensors on the CPU;
only the last step, the launch, is replaced by a loop over blocks (tests/host). It runs
the source itself, or NVRTC's PTX translated to C++, where an asynchronous copy takes as
long as it may and accesses are checked for their bounds and alignment.
"""

import shutil

import pytest
import torch
from host.start import (
    FEW,
    GEOMETRIES,
    TYPES,
    geometries_of,
    serving,
    starter_of_ptx,
    starter_of_source,
)
from test_cuda_launcher import CARD
from test_recurrence import TOLERANCE, assert_equal, make, project, run

from espnet_srupp.recurrence import cuda, recurrence

pytestmark = pytest.mark.once

SIGMOID_BOUND = 3e-7  # in kernels/README.md


@pytest.fixture(scope="session", params=["source", "sm_70", "sm_90"])
def start(request, tmp_path_factory):
    """Launches an instance by its name: the source as C++, or an architecture's PTX.

    And the geometries that there are of it.
    """
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("host")
    if request.param == "source":
        return starter_of_source(folder), GEOMETRIES
    architecture = int(request.param.removeprefix("sm_"))
    return starter_of_ptx(folder, architecture), geometries_of(architecture)


def always(geometry, geometries=GEOMETRIES):
    """A stand-in for `cuda.choose`; not all fit all types and tensors."""

    def choose(columns, fitting, fetched, io, together, card):
        return serving(geometry, fitting, io, together, geometries)

    return choose


@pytest.fixture
def on_host(start, monkeypatch):
    """backend="cpu" runs kernels/recurrence.cu; a function forces a geometry."""
    # not above: it needs numba, and tests/test_cuda.py takes what it can from here
    from espnet_srupp.recurrence import cpu

    tensors = []
    launch = cuda._launch
    start, geometries = start

    def launch_with(kernel, x, v, bidirectional, inputs, outputs, *flags):
        tensors[:] = [t for t in (*inputs, *outputs) if t is not None]
        launch(kernel, x, v, bidirectional, inputs, outputs, *flags)

    def start_here(name, device, warps, args):
        start(name, warps, args, tensors)

    def force(geometry):
        monkeypatch.setattr(cuda, "choose", always(geometry, geometries))

    card = CARD._replace(copies_ahead=FEW[4] in geometries)
    monkeypatch.setattr(cuda, "_card", lambda device: card)
    monkeypatch.setattr(cuda, "_launch", launch_with)
    monkeypatch.setattr(cuda, "_start", start_here)
    monkeypatch.setattr(cpu, "forward", cuda.forward)
    monkeypatch.setattr(cpu, "backward", cuda.backward)
    return force


def evaluate(tensors, **options):
    """Outputs and gradients by name, as `run`, with or without c0 in `tensors`."""
    h, c_last = recurrence(**tensors, **options)
    grads = torch.autograd.grad(
        project(h, c_last), list(tensors.values()), materialize_grads=True
    )
    names = [f"d{name}" for name in tensors]
    return {"h": h, "c_last": c_last} | dict(zip(names, grads, strict=True))


SHAPES = [  # T, B, D, lengths, geometry
    pytest.param(1, 1, 1, None, (1, 16), id="T1-B1-D1"),
    pytest.param(2, 3, 5, [2, 0, 1], (1, 16), id="T2-B3-D5-ragged"),
    pytest.param(63, 3, 64, [63, 1, 40], (2, 8), id="T63-B3-D64-ragged"),
    pytest.param(500, 1, 5, None, (1, 16), id="T500-B1-D5"),
    pytest.param(70, 2, 144, [70, 33], (1, 32), id="T70-B2-D144-ragged"),
    pytest.param(150, 3, 64, [0, 1, 150], (4, 8), id="T150-B3-D64-ragged"),
    pytest.param(9, 3, 832, [5, 9, 1], (2, 12), id="T9-B3-D832-ragged"),
    pytest.param(5, 3, 8, [0, 0, 0], (4, 4), id="T5-B3-D8-all-padding"),
    pytest.param(0, 2, 4, None, (2, 12), id="T0-B2-D4"),
    pytest.param(4, 0, 8, None, (2, 12), id="T4-B0-D8"),
]


@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("masked", [False, True], ids=["no-mask", "mask"])
@pytest.mark.parametrize("started", [False, True], ids=["no-c0", "c0"])
@pytest.mark.parametrize(("T", "B", "D", "lengths", "geometry"), SHAPES)
def test_source_equals_reference(
    T, B, D, lengths, geometry, started, masked, bidirectional, on_host, poisoned_memory
):
    if bidirectional and D % 2:
        pytest.skip("D is odd")
    on_host(geometry)
    tensors, lengths = make(T, B, D, lengths, torch.float32)
    # a large v amplifies rounding from frame to frame, whoever rounds
    tensors["v"].detach().mul_(0.3)
    if not started:
        del tensors["c0"]
    wide = {k: t.detach().double().requires_grad_() for k, t in tensors.items()}
    mask_c = torch.rand(B, D) * 2 if masked else None
    options = {"lengths": lengths, "bidirectional": bidirectional, "mask_c": mask_c}
    expected = evaluate(wide, backend="reference", **options)
    assert_equal(evaluate(wide, **options), expected, TOLERANCE[torch.float64])
    assert_equal(evaluate(tensors, **options), expected, TOLERANCE[torch.float32])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("D", [16, 272], ids=["part-of-a-warp", "a-warp-and-part"])
def test_half_types_equal_reference(D, geometry, dtype, on_host, poisoned_memory):
    on_host(geometry)
    tensors, lengths = make(40, 3, D, [40, 0, 21], dtype)
    actual = run(tensors, lengths, bidirectional=True)
    expected = run(tensors, lengths, bidirectional=True, backend="reference")
    assert actual["h"].dtype == actual["du"].dtype == dtype
    assert actual["c_last"].dtype == actual["dv"].dtype == torch.float32
    assert_equal(actual, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_a_geometry_changes_no_bit(dtype, on_host):
    tensors, lengths = make(70, 3, 32, [70, 1, 33], dtype)
    results = []
    for geometry in GEOMETRIES:
        on_host(geometry)
        results.append(run(tensors, lengths, bidirectional=True))
    for result in results[1:]:
        assert_equal(result, results[0], tolerance=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("D", [5, 6, 8, 12, 16])
def test_words_lie_where_they_can_be_moved(D, dtype, on_host, monkeypatch):
    """A GPU refuses to move a word whose address is not a multiple of its size."""
    chosen = set()

    def choose(columns, fitting, fetched, io, together, card):
        args = fetched, io, together, card
        channels, _, copied = cuda_choose(columns, fitting, *args)
        chosen.add((channels, copied))
        return serving((channels, FEW[channels][1]), fitting, io, together)

    cuda_choose = cuda.choose
    monkeypatch.setattr(cuda, "choose", choose)
    card = cuda._card(None)._replace(multiprocessors=1)
    monkeypatch.setattr(cuda, "_card", lambda device: card)
    tensors, lengths = make(5, 128, D, [5, 0, 3, 1] * 32, dtype)
    options = {"bidirectional": D == 16}
    aligned = run(tensors, lengths, **options)
    unaligned = {
        k: torch.cat([t.detach().flatten()[:1], t.detach().flatten()])[1:].view_as(t)
        for k, t in tensors.items()
    }
    unaligned = {k: t.requires_grad_() for k, t in unaligned.items()}
    assert unaligned["x"].data_ptr() % (2 * dtype.itemsize) == dtype.itemsize
    # small ones are copied, so that they do not make large ones slow
    small = unaligned | {k: tensors[k] for k in "ux"}
    assert_equal(run(small, lengths, **options), aligned, tolerance=0)
    half, width = dtype.itemsize == 2, D // (1 + options["bidirectional"])
    if width * dtype.itemsize % 16 == 0:
        many = 4 if card.copies_ahead else 2
        expected = many if half else 8 // dtype.itemsize, 16
    elif half and width % 2 == 0:
        expected = 2, 4
    else:
        expected = 1, dtype.itemsize
    assert chosen == {expected}
    assert_equal(run(unaligned, lengths, **options), aligned, tolerance=0)
    assert chosen == {expected, (1, dtype.itemsize)}


def test_strided_tensors_equal_contiguous_ones(on_host):
    on_host((2, 8))
    tensors, lengths = make(9, 3, 8, [9, 2, 5], torch.float32)
    strided = {k: t.detach().mT.contiguous().mT for k, t in tensors.items()}
    assert not strided["x"].is_contiguous()
    results = []
    for values in (tensors, strided):
        leaves = [t.detach().requires_grad_() for t in values.values()]
        h, c_last = recurrence(*leaves, lengths, bidirectional=True)
        # their gradients are one number for all
        gradients = torch.autograd.grad(h.sum() + c_last.sum(), leaves)
        results.append([h, c_last, *gradients])
    for expected, actual in zip(*results, strict=True):
        assert torch.equal(actual, expected)


def test_inference_saves_no_state_and_changes_no_bit(on_host):
    on_host((2, 8))
    tensors, lengths = make(21, 2, 8, [21, 9], torch.float32)
    expected = run(tensors, lengths)
    values = [t.detach() for t in tensors.values()]
    h, c_last, c = cuda.forward(*values, lengths, None, False, False)
    assert c.numel() == 0
    assert torch.equal(h, expected["h"])
    assert torch.equal(c_last, expected["c_last"])


def test_a_forward_pass_saves_every_fourth_state(on_host):
    on_host((2, 8))
    tensors, lengths = make(10, 4, 8, [10, 0, 8, 1], torch.float32)
    values = [t.detach() for t in tensors.values()]
    *_, c = cuda.forward(*values, lengths, None, False, True)
    assert len(c) == 3
    for to_come, states in zip((0, 4, 8), c, strict=True):
        _, expected, _ = cuda.forward(*values, lengths - to_come, None, False, False)
        there = lengths > to_come
        assert torch.equal(states[there], expected[there])


def test_a_last_state_without_a_gradient_counts_as_one_of_zeros(on_host):
    on_host((1, 16))
    tensors, lengths = make(7, 2, 8, [7, 3], torch.float32)
    u, x, *state = (t.detach() for t in tensors.values())
    *_, c = cuda.forward(u, x, *state, lengths, None, True, True)
    grads = [
        cuda.backward(x, dc_last, u, x, *state, lengths, None, c, True)
        for dc_last in (None, torch.zeros(2, 8))
    ]
    assert_equal(*(dict(enumerate(g)) for g in grads), tolerance=0)


@pytest.mark.parametrize("D", [5, 6, 7])
def test_gradients_lie_where_compiled_code_looks_for_them(D, on_host):
    """torch's inductor refuses an operator's result at another address."""
    on_host((1, 16))
    tensors, lengths = make(4, 3, D, dtype=torch.float32)
    u, x, *state = (t.detach() for t in tensors.values())
    given = torch.ones_like(x), torch.ones(3, D), u, x, *state, lengths, None
    grads = cuda.backward(*given, torch.zeros(cuda.saved(4), 3, D), False)
    assert [grad.data_ptr() % 16 for grad in grads] == [0] * 5


def test_lengths_out_of_range_are_clamped(on_host):
    on_host((1, 16))
    tensors, _ = make(6, 3, 4)
    values = [t.detach() for t in tensors.values()]
    for save_c in (False, True):
        args = None, False, save_c
        actual = cuda.forward(*values, torch.tensor([7, -1, 2**40]), *args)
        expected = cuda.forward(*values, torch.tensor([6, 0, 6]), *args)
        assert_equal(dict(enumerate(actual[:2])), dict(enumerate(expected[:2])), 0)


def test_padding_is_not_read(on_host):
    on_host((1, 16))
    tensors, lengths = make(9, 3, 6, [9, 0, 4])
    clean = run(tensors, lengths, bidirectional=True)
    dirty = {k: t.detach().clone() for k, t in tensors.items()}
    for row, length in enumerate(lengths.tolist()):
        dirty["u"][length:, row] = float("nan")
        dirty["x"][length:, row] = float("inf")
    dirty = {k: t.requires_grad_() for k, t in dirty.items()}
    assert_equal(run(dirty, lengths, bidirectional=True), clean, tolerance=0)


@pytest.mark.parametrize("magnitude", [1e-40, 1e4, 1e30])
def test_finite_input_gives_finite_output(magnitude, on_host):
    on_host((2, 8))
    tensors, lengths = make(12, 2, 8, [12, 5], torch.float32)
    values = [(t.detach() * magnitude) for t in tensors.values()]
    h, c_last, _ = cuda.forward(*values, lengths, None, False, False)
    assert h.isfinite().all()
    assert c_last.isfinite().all()


def test_a_nan_frame_stays_in_its_own_column(on_host):
    on_host((4, 4))
    tensors, _ = make(6, 2, 8, dtype=torch.bfloat16)
    with torch.no_grad():
        tensors["u"][2, 0, 0, 1] = float("nan")
        h, _ = recurrence(*tensors.values())
    expected = torch.zeros(6, 2, 8, dtype=torch.bool)
    expected[2:, 0, 1] = True
    assert torch.equal(h.isnan(), expected)


def sigmoid(a):
    """The forget gate alone: a state of 1 is multiplied with it."""
    D = a.numel()
    u = torch.zeros(1, 1, 3, D, dtype=a.dtype, device=a.device)
    u[0, 0, 0] = a
    x, zeros, ones = u[:, :, 1], a.new_zeros(2, D), a.new_ones(1, D)
    return recurrence(u, x, zeros, zeros, ones)[1][0]


def test_a_sigmoid_is_within_its_bound(on_host):
    on_host((4, 4))
    a = torch.linspace(-100, 100, 2**16)
    error = (sigmoid(a).double() - torch.sigmoid(a.double())).abs().max()
    assert error < SIGMOID_BOUND


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_numbers_are_rounded_as_torch_rounds(dtype, on_host):
    """Gates wide open let c0 through to h."""
    on_host((1, 16))
    bits = torch.randint(-(2**31), 2**31, (2**16,)).int()
    bits[::2] &= -(2**12)  # numbers half way between two half ones
    c0 = torch.nan_to_num(bits.view(torch.float32), nan=1.0)[None]
    c0.clamp_(-3e38, 3e38)
    c0[c0.abs() < torch.finfo(c0.dtype).tiny] = 0  # as -ftz makes them
    D = c0.numel()
    u = torch.full((1, 1, 3, D), float("inf"), dtype=dtype)
    u[:, :, 2] = 0
    x, zeros = torch.zeros(1, 1, D, dtype=dtype), torch.zeros(2, D)
    h, c_last = recurrence(u, x, zeros, zeros, c0)
    assert torch.equal(c_last, c0)
    assert torch.equal(h[0], c0.to(dtype))
