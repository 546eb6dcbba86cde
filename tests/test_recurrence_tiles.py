"""The projection and the recurrence in tiles of time give what they give apart."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

from espnet_srupp.layer import SRUppLayer
from espnet_srupp.recurrence import recurrence, team, tiles

EXACT = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2}
# T, B, D, lengths
SHAPES = [
    (1, 1, 2, None),
    (64, 3, 10, [64, 0, 1]),
    (65, 1, 64, None),
    (130, 2, 64, [1, 130]),
    (200, 3, 6, [63, 128, 64]),
    (100, 3, 64, [70, 65, 12]),
    (70, 1, 2176, [69]),
    # more rows than a tile has
    (3, 200, 6, None),
]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "ROWS", 64)


def problem(T, B, D, lengths, dtype):
    generator = torch.Generator().manual_seed(T + D)
    q, x = (
        torch.randn(T, B, size, generator=generator, dtype=torch.float64).to(dtype)
        for size in (5, D)
    )
    weight = torch.randn(3 * D, 5, generator=generator, dtype=torch.float64).to(dtype)
    state = torch.float64 if dtype == torch.float64 else torch.float32
    # in v's range at the start: large ones would amplify how products were rounded
    v, b = torch.rand(2, 2, D, generator=generator, dtype=torch.float64).to(state) - 0.5
    return q, weight, x, v, b, None if lengths is None else torch.tensor(lengths)


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tiles_are_the_reference_on_the_whole(
    shape, bidirectional, dtype, poisoned_memory
):
    q, weight, x, v, b, lengths = problem(*shape, dtype)
    u = (q @ weight.T).view(*x.shape[:2], 3, -1)
    expected, _ = recurrence(
        *(u, x, v, b),
        lengths=lengths,
        bidirectional=bidirectional,
        backend="reference",
    )
    h = tiles.project(q, weight, x, v, b, lengths, bidirectional)
    assert h.dtype == dtype
    torch.testing.assert_close(h, expected, rtol=EXACT[dtype], atol=EXACT[dtype])


def test_padding_is_zero_and_never_read(poisoned_memory):
    q, weight, x, v, b, lengths = problem(100, 3, 64, [70, 0, 12], torch.float32)
    for row, length in enumerate(lengths):
        q[length:, row] = x[length:, row] = torch.nan
    h = tiles.project(q, weight, x, v, b, lengths, True)
    for row, length in enumerate(lengths):
        assert h[:length, row].isfinite().all()
        assert (h[length:, row] == 0).all()


@pytest.mark.parametrize("lengths", [[-1, 5], [5, 101]], ids=str)
def test_lengths_out_of_range_are_refused(lengths):
    q, weight, x, v, b, _ = problem(100, 2, 64, None, torch.float32)
    with pytest.raises(ValueError, match="expected 0 to T = 100"):
        tiles.project(q, weight, x, v, b, torch.tensor(lengths), True)


def test_a_default_device_is_not_that_of_the_tensors():
    given = problem(100, 2, 64, None, torch.float32)
    expected = tiles.project(*given, True)
    with torch.device("meta"):
        found = tiles.project(*given, True)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("lengths", [[300, 77], [300, 0], [0, 0]], ids=str)
def test_any_number_of_threads_gives_the_same(lengths):
    given = problem(300, 2, 256, lengths, torch.float32)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(tiles.project(*given, True))
    finally:
        torch.set_num_threads(before)
    # a product may add in another order
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


@pytest.mark.parametrize(("threads", "jobs"), [(1, 2), (2, 2), (3, 4), (4, 4), (16, 6)])
def test_every_thread_has_a_job_where_rows_suffice(threads, jobs, monkeypatch):
    shared = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(team, "share", lambda n, work: [shared.append(n), work(0, 1)])
    tiles.project(*problem(100, 3, 64, None, torch.float32), True)
    assert shared == [jobs]


@pytest.mark.parametrize("order", [[0], [1], [1, 0]], ids=str)
def test_any_thread_does_what_the_others_leave(order, monkeypatch):
    given = problem(300, 3, 256, [300, 77, 0], torch.float32)
    expected = tiles.project(*given, True)
    monkeypatch.setattr(team, "share", lambda n, work: [work(k, 2) for k in order])
    found = tiles.project(*given, True)
    torch.testing.assert_close(found, expected)


def test_bfloat16_has_no_batched_products_whose_weights_onednn_copies(
    monkeypatch,
):
    monkeypatch.delattr(torch, "bmm")
    h = tiles.project(*problem(100, 3, 64, None, torch.bfloat16), True)
    assert h.isfinite().all()


def test_a_tile_is_as_large_where_some_rows_walk_alone():
    walk = tiles._walk(torch.zeros(100, 4, 5), torch.full((4,), 100), np.array([2]))
    assert [q.shape[1] for *_, q in walk] == [64, 36]


def test_threads_of_a_layer_need_no_gradients(layer):
    x, before = torch.randn(100, 3, 64), torch.get_num_threads()
    expected = layer(x)
    torch.set_num_threads(2)
    try:
        with torch.no_grad():
            assert layer.in_tiles(x)
            torch.testing.assert_close(layer(x), expected)
    finally:
        torch.set_num_threads(before)


@pytest.fixture(params=[True, False], ids=["both-ways", "one-way"])
def layer(request):
    layer = SRUppLayer(64, 8, bidirectional=request.param).eval()
    nn.init.ones_(layer.attention.alpha)
    return layer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_layer_without_gradients_is_the_layer_with_them(layer, dtype):
    x, lengths = torch.randn(100, 3, 64, dtype=dtype), torch.tensor([100, 0, 30])
    layer = layer.to(dtype)
    expected = layer(x, lengths)
    with torch.no_grad():
        assert tiles.serves(x)
        torch.testing.assert_close(layer(x, lengths), expected)


def test_a_layer_in_autocast_is_the_layer_with_gradients(layer):
    x, lengths = torch.randn(100, 3, 64), torch.tensor([100, 0, 30])
    with torch.autocast("cpu", torch.bfloat16):
        expected = layer(x, lengths)
        with torch.no_grad():
            h = layer(x, lengths)
    assert h.dtype == torch.bfloat16
    torch.testing.assert_close(h, expected)


def test_tiles_are_for_enough_frames_without_gradients(monkeypatch):
    monkeypatch.setattr(tiles, "ROWS", 90)
    x = torch.randn(33, 1, 64)
    assert not tiles.serves(x)
    with torch.no_grad():
        assert tiles.serves(x)
        assert not tiles.serves(x[:32])
        assert not tiles.serves(x.half())
        assert not tiles.serves(x.to("meta"))
        # smaller products of bfloat16 are slow
        assert not tiles.serves(torch.randn(90, 1, 64, dtype=torch.bfloat16))
        assert tiles.serves(torch.randn(91, 1, 64, dtype=torch.bfloat16))
        with torch.autocast("cpu", torch.float16):
            assert not tiles.serves(x)


def test_a_vectorised_encoder_has_no_tiles(layer):
    """Its tensors hold several, of which only an operator is given each one."""
    x = torch.randn(2, 40, 3, 64)
    with torch.no_grad():
        torch.testing.assert_close(torch.vmap(layer)(x), torch.stack([*map(layer, x)]))


def test_a_replaced_projection_is_run_itself(layer):
    """Quantisation and adapters put another module where the linear layer was."""
    x = torch.randn(100, 1, 64)
    projection = layer.attention.output

    class Adapted(nn.Linear):
        def forward(self, q):
            return 2 * projection(q)

    with torch.no_grad():
        plain = layer(x)
        layer.attention.output = Adapted(8, 192, bias=False)
        adapted = layer(x)
        layer.attention.output = nn.Linear(8, 192, bias=False)
        layer.attention.output.weight.copy_(2 * projection.weight)
        torch.testing.assert_close(adapted, layer(x))
    assert not adapted.allclose(plain)


@pytest.mark.parametrize(
    ("module", "told"), [(torch.jit, "is_tracing"), (torch.compiler, "is_compiling")]
)
def test_who_traces_gets_the_operator(monkeypatch, module, told):
    class Traced(torch.Tensor):
        pass

    x = torch.randn(100, 1, 64)
    with torch.no_grad():
        assert tiles.serves(x)
        assert not tiles.serves(x.as_subclass(Traced))
        monkeypatch.setattr(module, told, lambda: True)
        assert not tiles.serves(x)


def test_whoever_looks_at_operators_gets_none_of_tiles():
    x = torch.randn(100, 1, 64)
    with torch.no_grad():
        assert tiles.serves(x)
        with FlopCounterMode(display=False):
            assert not tiles.serves(x)


def test_whoever_asks_for_tangents_gets_none_of_tiles():
    x = torch.randn(tiles.ROWS + 1, 1, 4)
    with torch.no_grad(), forward_ad.dual_level():
        assert tiles.serves(x)
        assert not tiles.serves(forward_ad.make_dual(x, torch.ones_like(x)))


def test_tangents_of_any_one_parameter_are_an_error_not_zeros(layer):
    x = torch.randn(tiles.ROWS + 1, 1, 64)
    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    for name, value in parameters.items():
        with torch.no_grad(), forward_ad.dual_level():
            dual = {name: forward_ad.make_dual(value, torch.ones_like(value))}
            # torch's own for what comes before its attention, else ours
            with pytest.raises(NotImplementedError, match="forward(-mode)? AD"):
                torch.func.functional_call(layer, dual, (x,))


@pytest.mark.parametrize("name", ["v", "b"])
def test_tangents_of_a_tensor_in_the_place_of_a_parameter_are_an_error(layer, name):
    value = getattr(layer, name).detach()
    delattr(layer, name)
    with torch.no_grad(), forward_ad.dual_level():
        setattr(layer, name, forward_ad.make_dual(value, torch.ones_like(value)))
        with pytest.raises(NotImplementedError, match='pass backend="reference"'):
            layer(torch.randn(tiles.ROWS + 1, 1, 64))


def test_profilers_see_tiles_by_name(layer):
    with torch.no_grad(), torch.profiler.profile() as seen:
        layer(torch.randn(100, 1, 64))
    names = {event.key for event in seen.key_averages()}
    assert "espnet_srupp::recurrence_tiles" in names
