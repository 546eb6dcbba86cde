"""The first convolution as a matrix product, which it is on a GPU."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn.utils import prune

from espnet_srupp import subsampling as tiling
from espnet_srupp.subsampling import CONVOLUTIONS, Conv2dSubsampling

ALL = pytest.mark.parametrize("input_layer", CONVOLUTIONS)
BOTH = pytest.mark.parametrize("separable", [False, True], ids=["full", "separable"])


@ALL
def test_a_product_is_the_convolution_it_stands_for(input_layer):
    conv = Conv2dSubsampling(24, 6, input_layer).double().conv[0]
    x = torch.randn(2, 1, 30, 24, dtype=torch.float64, requires_grad=True)
    leaves = [x, *conv.parameters()]
    results = []
    for y in (conv(x).relu(), tiling.as_product(conv, x)):
        grads = torch.autograd.grad(y, leaves, torch.cos(y.detach()))
        results.append([y, *grads])
    torch.testing.assert_close(results[1], results[0])
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_a_product_copies_no_output_for_its_gradients():
    conv = Conv2dSubsampling(24, 6).conv[0]
    y = tiling.as_product(conv, torch.randn(2, 1, 30, 24))
    nodes, names = [y.grad_fn], []
    while nodes:
        node = nodes.pop()
        names.append(node.name())
        nodes += [following for following, _ in node.next_functions if following]
    assert "CopySlices" not in names and "ReluBackward0" in names


def test_a_pruned_convolution_is_run_as_it_is_on_a_gpu(monkeypatch):
    calls = []
    monkeypatch.setattr(tiling, "as_product", lambda conv, x: calls.append(x) or 1 / 0)
    with FakeTensorMode(), torch.device("cuda"):
        module = Conv2dSubsampling(24, 6)
        prune.random_unstructured(module.conv[0], "weight", 0.5)
        module(torch.empty(2, 30, 24))
        prune.remove(module.conv[0], "weight")
        with pytest.raises(ZeroDivisionError):
            module(torch.empty(2, 30, 24))
    assert len(calls) == 1


class Wider(torch.nn.Conv2d):
    def forward(self, x):
        return super().forward(torch.nn.functional.pad(x, (1, 1)))


@pytest.mark.parametrize(
    ("place", "other", "width"),
    [(0, Wider(1, 6, 3, 2), 12), (1, torch.nn.SiLU(), 22)],
    ids=["convolution", "ReLU"],
)
def test_what_is_replaced_is_called_on_a_gpu(place, other, width, monkeypatch):
    monkeypatch.setattr(tiling, "as_product", lambda conv, x: 1 / 0)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"):
        convolutions = Conv2dSubsampling(24, 6, "conv2d1").conv
        convolutions[place] = other.to("cuda")
        assert convolutions[:2](torch.empty(2, 1, 30, 24)).shape[-1] == width


@pytest.mark.parametrize("watched", [0, 1], ids=["convolution", "ReLU"])
@pytest.mark.parametrize("kind", ["forward", "forward_pre"])
def test_hooks_are_called_on_a_gpu(watched, kind):
    called = []
    with FakeTensorMode(), torch.device("cuda"):
        module = Conv2dSubsampling(24, 6)
        register = getattr(module.conv[watched], f"register_{kind}_hook")
        register(lambda *call: called.append(call))
        module(torch.empty(2, 30, 24))
    assert len(called) == 1


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", ["full_backward", "full_backward_pre"])
def test_full_backward_hooks_are_refused_and_not_passed_by(device, kind):
    with FakeTensorMode(), torch.device(device):
        module = Conv2dSubsampling(24, 6)
        getattr(module.conv[0], f"register_{kind}_hook")(print)
        with pytest.raises(RuntimeError, match="modified inplace"):
            module(torch.empty(2, 30, 24))


@ALL
@BOTH
@pytest.mark.requires_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_gpu_gives_what_a_cpu_gives(input_layer, separable, dtype):
    module = Conv2dSubsampling(40, 16, input_layer, separable=separable)
    xs_pad = torch.randn(3, 50, 40)
    expected = module(xs_pad)
    expected.square().mean().backward()
    wanted = [expected.detach(), *(p.grad.clone() for p in module.parameters())]
    module.zero_grad()
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        found = module.cuda()(xs_pad.cuda())
    found.float().square().mean().backward()
    tolerance = 1e-2 if dtype == torch.float32 else 5e-2  # cuDNN multiplies in TF32
    grads = [p.grad for p in module.parameters()]
    for want, got in zip(wanted, [found, *grads], strict=True):
        got = got.detach().float().cpu()
        assert (got - want).norm() <= tolerance * want.norm()


@ALL
@BOTH
def test_a_gpu_gives_the_shape_that_a_cpu_gives(input_layer, separable):
    module = Conv2dSubsampling(24, 6, input_layer, separable=separable)
    expected = module(torch.zeros(2, 30, 24)).shape
    with FakeTensorMode(), torch.device("cuda"):
        module = Conv2dSubsampling(24, 6, input_layer, separable=separable)
        assert module(torch.empty(2, 30, 24)).shape == expected


def test_products_are_of_autocasts_type():
    x = torch.empty(1)
    assert tiling.computed_in(x) == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert tiling.computed_in(x) == torch.bfloat16
        # which has no autocast
        assert tiling.computed_in(x.to("meta")) == torch.float32
