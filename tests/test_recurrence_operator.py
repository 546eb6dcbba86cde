"""The operator keeps torch's contract, and bad arguments are named."""

import pytest
import torch
from test_recurrence import make, project, run
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

from espnet_srupp.recurrence import cpu, recurrence
from espnet_srupp.recurrence.operator import recurrence_backward, recurrence_forward


def test_inference_saves_no_state(monkeypatch):
    saved, run_forward = [], cpu.forward

    def forward(*args):
        outputs = run_forward(*args)
        saved.append(outputs[2].numel())
        return outputs

    monkeypatch.setattr(cpu, "forward", forward)
    tensors, lengths = make(8, 2, 4)
    recurrence(*tensors.values(), lengths)
    with torch.no_grad():
        recurrence(*tensors.values(), lengths)
    recurrence(*(t.detach() for t in tensors.values()), lengths)
    assert saved == [8 * 2 * 4, 0, 0]


def test_the_operator_keeps_torchs_contract():
    # the state saved for the backward pass is not defined at padded frames
    for lengths, save_c in (([6, 6, 6], True), ([6, 0, 2], False)):
        tensors, lengths = make(6, 3, 4, lengths)
        values = [t.detach().requires_grad_(save_c) for t in tensors.values()]
        args = (*values, lengths, None, True, save_c)
        torch.library.opcheck(recurrence_forward, args)
        strided = [t.detach().mT.contiguous().mT for t in values[:2]]
        torch.library.opcheck(
            recurrence_forward, (*strided, *args[2:]), test_utils="test_faketensor"
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_results_and_gradients_of_half_types_are_what_the_operator_tells(dtype):
    tensors, lengths = make(6, 3, 4, [6, 0, 2], dtype)
    u, x, *state = (t.detach() for t in tensors.values())
    given = u, x, *state, lengths, None
    for operator, args in (
        (recurrence_forward, (*given, True, True)),
        (
            recurrence_backward,
            (torch.ones_like(x), torch.ones(3, 4), *given, torch.zeros(6, 3, 4), True),
        ),
    ):
        torch.library.opcheck(operator, args, test_utils="test_faketensor")


def test_compiled_without_a_graph_break():
    tensors, lengths = make(12, 2, 8, [12, 7])
    compiled = torch.compile(
        lambda *values: recurrence(*values, lengths, bidirectional=True)[0],
        fullgraph=True,
        backend="aot_eager",
    )
    expected = run(tensors, lengths, bidirectional=True)
    h = compiled(*tensors.values())
    torch.testing.assert_close(h, expected["h"])
    h.sum().backward()
    assert all(t.grad.isfinite().all() for t in tensors.values())


def test_exported_as_one_node():
    class Module(torch.nn.Module):
        def forward(self, u, x, v, b, c0):
            return recurrence(u, x, v, b, c0)

    tensors, _ = make(12, 2, 8)
    values = tuple(t.detach() for t in tensors.values())
    program = torch.export.export(Module(), values)
    targets = [str(node.target) for node in program.graph.nodes]
    assert sum("espnet_srupp.recurrence_forward" in target for target in targets) == 1
    torch.testing.assert_close(program.module()(*values), recurrence(*values))


def test_a_second_derivative_is_of_the_reference_alone():
    u, x, v, b, c0 = make(4, 2, 6)[0].values()
    (du,) = torch.autograd.grad(
        recurrence(u, x, v, b, c0)[0].cos().sum(), u, create_graph=True
    )
    with pytest.raises(RuntimeError, match='no second derivatives; pass backend="refe'):
        du.sum().backward()


def by_jvp(function, primals, tangents):
    return torch.func.jvp(function, tuple(primals), tuple(tangents))[1]


def by_dual_level(function, primals, tangents):
    with forward_ad.dual_level():
        pairs = zip(primals, tangents, strict=True)
        made = function(*(forward_ad.make_dual(*pair) for pair in pairs))
        return forward_ad.unpack_dual(made).tangent


@pytest.mark.parametrize("forward_mode", [by_jvp, by_dual_level])
def test_forward_mode_is_of_the_reference_alone(forward_mode):
    tensors = [t.detach() for t in make(4, 2, 6)[0].values()]
    tangents = [torch.randn_like(t) for t in tensors]
    with pytest.raises(NotImplementedError, match='pass backend="reference"'):
        forward_mode(lambda *given: recurrence(*given)[0], tensors, tangents)
    found = forward_mode(
        lambda *given: recurrence(*given, backend="reference")[0], tensors, tangents
    )
    assert found.abs().min() > 0


def test_checkpointed_gradients_are_bit_equal():
    tensors, lengths = make(12, 2, 8, [12, 7])
    expected = run(tensors, lengths)
    h, c_last = torch.utils.checkpoint.checkpoint(
        recurrence, *tensors.values(), lengths, use_reentrant=False
    )
    grads = torch.autograd.grad(project(h, c_last), list(tensors.values()))
    for name, grad in zip(tensors, grads, strict=True):
        assert torch.equal(grad, expected[f"d{name}"])


def bad(**changes):
    tensors, _ = make(4, 2, 6)
    return {k: t.detach() for k, t in tensors.items()} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"u": torch.zeros(4, 2, 3)}, r"u is \(4, 2, 3\), expected \(T, B, 3, D\)"),
        ({"u": torch.zeros(4, 2, 2, 6)}, r"u is \(4, 2, 2, 6\), expected \(T, B, 3"),
        ({"x": torch.zeros(4, 2, 5)}, r"x is \(4, 2, 5\), expected \(4, 2, 6\)"),
        ({"v": torch.zeros(3, 6)}, r"v is \(3, 6\), expected \(2, 6\)"),
        ({"b": torch.zeros(3, 6)}, r"b is \(3, 6\), expected \(2, 6\)"),
        ({"c0": torch.zeros(3, 6)}, r"c0 is \(3, 6\), expected \(2, 6\)"),
        ({"mask_c": torch.zeros(2, 5)}, r"mask_c is \(2, 5\), expected \(2, 6\)"),
        (
            {"x": torch.zeros(4, 2, 6).to_sparse()},
            "x is torch.sparse_coo, expected a d",
        ),
        (
            {"v": torch.zeros(2, 6).to_sparse()},
            "v is torch.sparse_coo, expected a d",
        ),
        ({"v": torch.zeros(2, 6, device="meta")}, "v is on meta, u on cpu; move them"),
        ({"x": torch.zeros(4, 2, 6)}, "x is torch.float32, u torch.float64"),
        ({"u": torch.zeros(4, 2, 3, 6).int()}, "u is torch.int32, expected one of"),
        ({"lengths": torch.zeros(3).long()}, r"lengths is \(3,\), expected \(2,\)"),
        ({"lengths": torch.zeros(2)}, "lengths is torch.float32, expected int64"),
        ({"lengths": torch.zeros(2).int()}, "lengths is torch.int32, expected int64"),
        ({"lengths": torch.tensor([5, 1])}, r"lengths are \[5, 1\], expected 0 to T"),
        ({"lengths": torch.tensor([-1, 1])}, r"lengths are \[-1, 1\]"),
        ({"backend": "gpu"}, "backend 'gpu' is not one of"),
        ({"backend": "cuda"}, "backend 'cuda' does not serve tensors on 'cpu'"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        recurrence(**bad(**changes))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_no_channel_is_an_error(bidirectional):
    tensors, _ = make(4, 2, 0)
    with pytest.raises(ValueError, match="D is 0, expected a channel or more"):
        recurrence(*tensors.values(), bidirectional=bidirectional)


def test_an_odd_number_of_channels_walks_one_way_and_not_both():
    tensors, _ = make(4, 2, 5)
    with pytest.raises(ValueError, match="D is 5, expected an even number"):
        recurrence(*tensors.values(), bidirectional=True)
    expected = recurrence(*tensors.values(), backend="reference")
    torch.testing.assert_close(recurrence(*tensors.values()), expected)


def test_a_device_without_a_kernel_is_an_error_not_a_slow_path():
    values = [torch.zeros(s, device="meta") for s in [(2, 1, 3, 4), (2, 1, 4)]]
    values += [torch.zeros(2, 4, device="meta")] * 2
    with pytest.raises(ValueError, match="no kernel for tensors on 'meta'"):
        recurrence(*values)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_gates_and_states_of_another_type_are_cast(backend):
    tensors, _ = make(6, 3, 4, dtype=torch.float32)
    u, x, *others = (t.detach() for t in tensors.values())
    others.append(torch.rand(3, 4))
    results = []
    for v, b, c0, mask_c in (others, [t.double() for t in others]):
        results.append(recurrence(u, x, v, b, c0, mask_c=mask_c, backend=backend))
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_mask_gets_no_gradient(backend):
    tensors, _ = make(4, 2, 6)
    mask_c = torch.ones(2, 6, dtype=torch.float64, requires_grad=True)
    recurrence(*tensors.values(), mask_c=mask_c, backend=backend)[0].sum().backward()
    assert mask_c.grad is None


@pytest.mark.parametrize("name", ["u", "x", "v", "b", "c0"])
def test_any_one_tensor_may_be_the_only_one_with_a_gradient(name):
    tensors, _ = make(4, 2, 6)
    expected = run(tensors, None)[f"d{name}"]
    given = {k: t.detach().requires_grad_(k == name) for k, t in tensors.items()}
    (found,) = torch.autograd.grad(project(*recurrence(**given)), given[name])
    assert torch.equal(found, expected)


def test_the_reference_runs_on_any_device():
    shapes = (2, 1, 3, 4), (2, 1, 4), (2, 4), (2, 4)
    values = [torch.zeros(shape, device="meta") for shape in shapes]
    h, _ = recurrence(*values, backend="reference")
    assert h.is_meta and h.shape == (2, 1, 4)


def test_the_reference_clamps_lengths_out_of_range():
    tensors, _ = make(6, 3, 4)
    wild, fit = (torch.tensor(lengths) for lengths in ([7, -1, 2**40], [6, 0, 6]))
    found, expected = (
        run(tensors, lengths, bidirectional=True, backend="reference")
        for lengths in (wild, fit)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_gradients_of_what_was_traced_without_them_are_an_error():
    tensors, _ = make(4, 2, 6)
    h, *_ = recurrence_forward(*tensors.values(), None, None, False, False)
    with pytest.raises(RuntimeError, match="no states were saved"):
        h.sum().backward()


def test_compilers_are_told_the_strides_that_strided_tensors_give():
    u, x, *rest = (t.detach() for t in make(6, 3, 4)[0].values())
    u, x = (t.mT.contiguous().mT for t in (u, x))
    given = u, x, *rest, None, None
    dh, dc_last, c = torch.ones_like(x), torch.ones_like(rest[2]), torch.zeros(6, 3, 4)
    for operator_, args in (
        (recurrence_forward, (*given, True, True)),
        (recurrence_backward, (dh, dc_last, *given, c.double(), True)),
    ):
        with FakeTensorMode() as mode:
            fake = [mode.from_tensor(a) if torch.is_tensor(a) else a for a in args]
            told = operator_(*fake)
        assert [t.stride() for t in told] == [t.stride() for t in operator_(*args)]
