"""What stands between the features and the encoder's layers: `input_layer`."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_srupp.hooks import watched
from espnet_srupp.precision import computed_in

# bytes of the first convolution's output that exist at once: oneDNN and cuDNN refuse
# 2 ** 31 elements, and memory is short long before; on a CPU so few that the C library
# keeps their memory, where new pages (from 32 MiB on with glibc's) cost as much as the
# convolution
TILE, TILE_CPU = 2**29, 2**24
# (kernel, stride) of each convolution, the same in time and frequency, as in ESPnet
CONVOLUTIONS = {
    "conv2d1": ((3, 1), (3, 1)),
    "conv2d2": ((3, 2), (3, 1)),
    "conv2d": ((3, 2), (3, 2)),
    "conv2d6": ((3, 2), (5, 3)),
    "conv2d8": ((3, 2), (3, 2), (3, 2)),
}


def output_length(n: int | Tensor, input_layer: str | None) -> int | Tensor:
    """Frames that the input layer makes of `n`, 0 when they are too few.

    No convolution pads, so these frames depend on those `n` alone, whatever follows.
    """
    for kernel, stride in CONVOLUTIONS.get(input_layer, ()):
        n = (n - kernel) // stride + 1
    return n.clamp(min=0) if isinstance(n, Tensor) else max(n, 0)


def shortest_input(input_layer: str | None) -> int:
    """Frames that the input layer needs to make one."""
    n = 1
    for kernel, stride in reversed(CONVOLUTIONS.get(input_layer, ())):
        n = (n - 1) * stride + kernel
    return n


def stride(input_layer: str | None) -> int:
    """Frames from one that the input layer makes to the next."""
    return math.prod(step for _, step in CONVOLUTIONS.get(input_layer, ()))


class Convolutions(nn.Sequential):
    """(B, 1, T, F) -> (B, C, T', F'); on a GPU the first is a matrix product.

    cuDNN writes its output, by far the largest tensor of an encoder, and reads and
    writes it again to add the bias: with the ReLU it takes three times as long.
    """

    def forward(self, x: Tensor) -> Tensor:
        first, relu, *others = self
        plain = type(first) is nn.Conv2d and type(relu) is nn.ReLU
        if not x.is_cuda or not plain or watched((first, relu)):
            return super().forward(x)
        x = as_product(first, x)
        for module in others:
            x = module(x)
        return x


def as_product(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """A convolution of one channel and its ReLU: (B, 1, T, F) -> (B, C, T', F')."""
    (rows, columns), (step, _) = conv.kernel_size, conv.stride
    patches = x[:, 0].to(computed_in(x)).unfold(1, rows, step)
    patches = patches.unfold(2, columns, step).flatten(3)  # (B, T', F', patch)
    B, T, features, patch = patches.shape
    # tensor cores want a multiple of 8
    patches, weight = (
        F.pad(y, (0, -patch % 8)) for y in (patches, conv.weight.flatten(1))
    )
    # of two dimensions, as autograd copies what is changed in place through a view
    x = F.linear(patches.flatten(0, 2), weight, conv.bias).relu_()
    return x.view(B, T, features, -1).permute(0, 3, 1, 2)  # channels last in memory


class Conv2dSubsampling(nn.Module):
    """Convolutions over time and frequency, then a linear layer.

    Args:
        input_size: features per frame.
        output_size: channels of the convolutions and width of the output.
        input_layer: a key of `CONVOLUTIONS`.
        separable: a depthwise and a pointwise convolution in the place of each but the
            first, as in FastConformer (Rekesh et al. 2023, arXiv 2305.05084).

    Raises:
        ValueError: `input_size` is too small for the convolutions.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        input_layer: str = "conv2d",
        separable: bool = False,
    ):
        super().__init__()
        width = output_length(input_size, input_layer)
        if width == 0:
            raise ValueError(
                f"input_layer {input_layer} needs at least "
                f"{shortest_input(input_layer)} features per frame, not {input_size}: "
                "choose another input_layer"
            )
        self.input_layer = input_layer
        self.output_size = output_size
        self.width = width
        channels = 1
        layers = []
        for kernel, stride in CONVOLUTIONS[input_layer]:
            groups = channels if separable else 1
            layers += [nn.Conv2d(channels, output_size, kernel, stride, groups=groups)]
            if groups > 1:
                layers += [nn.Conv2d(output_size, output_size, 1)]
            # the convolution's backward pass does without its output, but a hook on it
            # sees what the ReLU leaves, and torch refuses a full backward hook there
            layers += [nn.ReLU(inplace=True)]
            channels = output_size
        self.conv = Convolutions(*layers)
        self.linear = nn.Linear(output_size * width, output_size)

    def forward(self, xs_pad: Tensor) -> Tensor:
        """(B, T, input_size) -> (B, T', output_size), long input in tiles of time."""
        # traced code serves any length, and so cannot depend on it
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return self.subsample(xs_pad)
        _, T, _ = xs_pad.shape
        frames, rows = output_length(T, self.input_layer), self.tile_rows(xs_pad)
        if frames <= rows:
            return self.subsample(xs_pad)
        step = stride(self.input_layer)
        overlap = shortest_input(self.input_layer) - step
        tiles = [
            xs_pad[:, start * step : (start + rows) * step + overlap]
            for start in range(0, frames, rows)
        ]
        return torch.cat([self.subsample(tile) for tile in tiles], dim=1)

    def subsample(self, xs_pad: Tensor) -> Tensor:
        half = computed_in(xs_pad).itemsize < 4
        if self.width == 1 and half and xs_pad.is_cpu:
            # oneDNN 3.10 with AMX: a bfloat16 convolution with a stride and an output
            # that is one wide is garbage, so it gets a second column
            xs_pad = F.pad(xs_pad, (0, stride(self.input_layer)))
        x = xs_pad[:, None]  # (B, 1, T, F)
        if half or not torch.is_grad_enabled() or torch.jit.is_tracing():
            # channels last in memory: faster, but for float32 with its backward pass;
            # a trace is checked without gradients, so it is the same with them
            x = xs_pad[..., None].permute(0, 3, 1, 2)
        x = self.conv(x)[..., : self.width]  # (B, C, T', F')
        return self.linear(x.transpose(1, 2).flatten(2))

    def tile_rows(self, xs_pad: Tensor) -> int:
        """Frames T' of a tile."""
        B, _, features = xs_pad.shape
        (kernel, step), *_ = CONVOLUTIONS[self.input_layer]
        frames = stride(self.input_layer) // step  # of the first for one of T'
        width = (features - kernel) // step + 1
        row = B * self.output_size * frames * width
        tile = TILE_CPU if xs_pad.is_cpu else TILE
        return max(1, tile // (row * computed_in(xs_pad).itemsize))


def input_module(
    input_layer: str | None,
    input_size: int,
    output_size: int,
    dropout_rate: float,
    padding_idx: int,
    separable: bool = False,
) -> nn.Module:
    """The module (B, T, input_size) -> (B, T', output_size) of an `input_layer`.

    "embed" takes token ids (B, T), and None leaves the features as they are.

    Raises:
        ValueError: there is no such `input_layer`, or it has no convolutions and
            `separable` is asked for.
    """
    if input_layer in CONVOLUTIONS:
        return Conv2dSubsampling(input_size, output_size, input_layer, separable)
    if separable:
        raise ValueError(
            f"separable_subsampling needs convolutions, which input_layer "
            f"{input_layer or 'null'} has not: choose another input_layer"
        )
    if input_layer == "linear":
        return nn.Sequential(
            nn.Linear(input_size, output_size),
            nn.LayerNorm(output_size),
            nn.Dropout(dropout_rate),
        )
    if input_layer == "embed":
        return nn.Embedding(input_size, output_size, padding_idx)
    if input_layer is None:
        return nn.Identity()
    raise ValueError(
        f"unknown input_layer: {input_layer}; choose one of {', '.join(CONVOLUTIONS)}, "
        "linear, embed or null"
    )
