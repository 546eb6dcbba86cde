"""The SRU++ encoder of Pan et al. (2021), arXiv 2110.05571, as an ESPnet encoder."""

import math
from collections.abc import Set
from functools import partial
from itertools import islice

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typeguard import typechecked

from espnet_srupp import buckets
from espnet_srupp.compat import AbsEncoder
from espnet_srupp.layer import SRUppLayer, call, compiled
from espnet_srupp.padding import cut, repeat_last
from espnet_srupp.pooling import of_layers, on_means, stacks
from espnet_srupp.precision import set_apart
from espnet_srupp.ranges import check_rates, check_sizes
from espnet_srupp.subsampling import (
    input_module,
    output_length,
    shortest_input,
    stride,
)


class SRUppEncoder(AbsEncoder):
    """Subsampling, a linear layer to `hidden_size`, SRU++ layers, a linear layer out.

    Every utterance is encoded as if it were alone: lengths, masks and the backward
    direction follow its own frames, and memory grows linearly with them. On a CPU those
    of like lengths are encoded together (`buckets`).

    Args:
        input_size: features per frame; the number of tokens for `input_layer: embed`.
        output_size: width of the output; None leaves out the projection to it, so that
            the width is `hidden_size`.
        hidden_size: width d of the layers, even when `bidirectional`.
        attention_size: width d' of the attention.
        num_blocks: number of layers.
        attention_heads: heads of each attention; divides `attention_size`.
        bidirectional: half of each layer's channels runs backward in time.
        embed_size: width between the input layer and the linear layer to `hidden_size`.
        dropout_rate: on projections, and on states with one mask for all frames.
        attention_dropout_rate: on the attention weights.
        input_layer: "conv2d" (a frame in 4), "conv2d1" (1), "conv2d2" (2), "conv2d6",
            "conv2d8", "linear", "embed" (token ids) or None (features as they are).
        separable_subsampling: depthwise and pointwise convolutions in the place of
            all but the first: fewer operations.
        padding_idx: token whose embedding stays zero, for `input_layer: embed`.
        attention_interval: layers k, 2k, ... have attention; 1 is every layer.
        query_norm: a layer norm of the attention's queries; the papers have none.
        stack_norm: a layer norm before the first layer and one after the last; the
            papers have neither.
        forget_bias: where the biases of the forget gates start.
        reset_bias: where those of the reset gates start.
        state_weight: the gates' weights on the state start within this of 0.
        fan_in_init: draws the layers' matrices by their fan-in; False: as Xavier does.
        interctc_layer_idx: layers (from 1) whose outputs are returned as well.
        interctc_use_conditioning: adds what the CTC makes of those to what follows.
        layer_drop_rate: probability that a training batch, on a CPU a bucket of it,
            passes a layer by.
        layer_pooling: by layer, the frames whose mean it takes as one, so that it has
            fewer (`pooling.on_means`); empty: 1 for all of them.
        gradient_checkpointing: training keeps the layers' inputs alone and computes
            each layer again for its gradients: less memory, more time, same numbers.
        compile_layers: training runs the layers as `torch.compile` makes them, for all
            lengths alike; that takes a C++ compiler on a CPU and Triton on a GPU, and
            no `attention_dropout_rate`.

    Raises:
        ValueError: an unknown `input_layer`, one without convolutions to separate, a
            size or rate out of its range, sizes that do not fit each other, or
            `compile_layers` with `attention_dropout_rate`.
        AssertionError: `interctc_layer_idx` names no layer before the last one.
    """

    @typechecked
    def __init__(
        self,
        input_size: int,
        output_size: int | None = 512,
        hidden_size: int = 3328,
        attention_size: int = 416,
        num_blocks: int = 12,
        attention_heads: int = 1,
        bidirectional: bool = True,
        embed_size: int = 512,
        dropout_rate: float = 0.1,
        attention_dropout_rate: float = 0.0,
        input_layer: str | None = "conv2d",
        separable_subsampling: bool = False,
        padding_idx: int = -1,
        attention_interval: int = 1,
        query_norm: bool = True,
        stack_norm: bool = True,
        forget_bias: float = 1.0,
        reset_bias: float = -1.0,
        state_weight: float = 0.5,
        fan_in_init: bool = True,
        interctc_layer_idx: list[int] = [],  # noqa: B006
        interctc_use_conditioning: bool = False,
        layer_drop_rate: float = 0.0,
        layer_pooling: list[int] = [],  # noqa: B006
        gradient_checkpointing: bool = False,
        compile_layers: bool = False,
    ):
        super().__init__()
        self._output_size = hidden_size if output_size is None else output_size
        check_sizes(
            output_size=self._output_size,
            hidden_size=hidden_size,
            attention_size=attention_size,
            num_blocks=num_blocks,
            attention_heads=attention_heads,
            embed_size=embed_size,
            attention_interval=attention_interval,
        )
        check_rates(
            dropout_rate=dropout_rate,
            attention_dropout_rate=attention_dropout_rate,
            layer_drop_rate=layer_drop_rate,
            state_weight=state_weight,
        )
        # ESPnet's own encoders assert this, and its tests expect them to
        assert all(type(i) is int and 0 < i < num_blocks for i in interctc_layer_idx), (
            f"interctc_layer_idx {interctc_layer_idx} names a layer outside of 1 to "
            f"{num_blocks - 1}"
        )
        self.input_size = input_size
        # of its own, as who quantises the layers replaces their matrices
        self.layer_size = hidden_size * attention_size
        self.input_layer = input_layer
        self.layer_drop_rate = layer_drop_rate
        self.layer_pooling = of_layers(layer_pooling, num_blocks)
        if compile_layers and attention_dropout_rate:
            # torch 2.11: "Node add_291 was invalid, but is output"
            raise ValueError(
                "compile_layers does not go with attention_dropout_rate, as torch's "
                "inductor fails on it: leave out one of them"
            )
        self.gradient_checkpointing = gradient_checkpointing
        self.compile_layers = compile_layers
        self.interctc_layer_idx = list(interctc_layer_idx)
        # without such a layer its weights would never get a gradient
        interctc_use_conditioning &= bool(interctc_layer_idx)
        self.interctc_use_conditioning = interctc_use_conditioning
        # ESPnet's models put a linear layer from the vocabulary to output_size here
        self.conditioning_layer = None

        self.embed = input_module(
            input_layer,
            input_size,
            embed_size,
            dropout_rate,
            padding_idx,
            separable_subsampling,
        )
        self.input = nn.Linear(
            input_size if input_layer is None else embed_size, hidden_size
        )
        self.input_norm = nn.LayerNorm(hidden_size) if stack_norm else nn.Identity()
        self.encoders = nn.ModuleList(
            SRUppLayer(
                hidden_size,
                attention_size,
                attention_heads,
                bidirectional,
                (i + 1) % attention_interval == 0,
                query_norm,
                dropout_rate,
                attention_dropout_rate,
                forget_bias,
                reset_bias,
                state_weight,
                fan_in_init,
            )
            for i in range(num_blocks)
        )
        self.after_norm = nn.LayerNorm(hidden_size) if stack_norm else nn.Identity()
        # identities where the layers are as wide as the output
        self.output, self.conditioning_output = nn.Identity(), None
        if output_size is not None:
            self.output = nn.Linear(hidden_size, output_size)
        if interctc_use_conditioning:
            self.conditioning_output = nn.Identity()
            if output_size is not None:
                self.conditioning_output = nn.Linear(output_size, hidden_size)

    def output_size(self) -> int:
        """Width of the output."""
        return self._output_size

    def espnet_initialization_fn(self) -> None:
        """Restores the norms, which ESPnet 202511's `init: chainer` draws at random."""
        for module in (self.input_norm, self.after_norm, *self.embed.modules()):
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()

    def forward(
        self,
        xs_pad: Tensor,
        ilens: Tensor,
        prev_states: Tensor | None = None,
        masks: Tensor | None = None,
        ctc: nn.Module | None = None,
        return_all_hs: bool = False,
    ) -> tuple[Tensor | tuple[Tensor, list], Tensor, None]:
        """Encodes a padded batch.

        Args:
            xs_pad: (B, T, input_size), or (B, T) token ids for `input_layer: embed`.
            ilens: (B,), frames of each utterance. What lies beyond is never read.
            prev_states: not used.
            masks: (B, T) bool, True at padded frames, in the place of `ilens`.
            ctc: the CTC whose posteriors condition the layers after an intermediate
                output; needed for `interctc_use_conditioning` only.
            return_all_hs: also return the output after each layer.

        Returns:
            xs: (B, max(olens), output_size), padded by anything in training and by each
                utterance's last frame otherwise; with intermediate outputs a pair of it
                and their list: [(layer, output), ...], or [output, ...] of all layers
                for `return_all_hs`.
            olens: (B,), frames left of each utterance; 0 for one too short.
            None: there is no state to carry.

        Raises:
            TooShortUttError: there is no utterance that is long enough for the
                subsampling.
            ValueError: frames have other features than `input_size`, an utterance is
                longer than the batch, or it has `interctc_use_conditioning`, and there
                is no CTC.
        """
        self.check_features(xs_pad)
        if masks is not None:
            ilens = (~masks).sum(1)
        ilens = ilens.to(xs_pad.device, torch.int64)
        xs_pad, padded = cut(xs_pad, ilens, self.input_layer)
        last = len(self.encoders)
        ends = {*self.interctc_layer_idx, last}
        if return_all_hs and not self.interctc_layer_idx:
            ends |= {*range(1, last)}
        xs_pad, broken = set_apart(xs_pad)
        encode = partial(self.encode, ends=ends, ctc=ctc)
        if padded and buckets.serves(xs_pad, islice(self.modules(), 1, None)):
            cost = buckets.cost(self.layer_size) * stride(self.input_layer)
            least = shortest_input(self.input_layer)
            outs, olens = buckets.in_buckets(encode, xs_pad, ilens, least, cost)
        else:
            outs, olens = encode(xs_pad, ilens, padded)
        if broken is not None:
            broken = broken[:, None, None]
            outs = {i: xs.masked_fill(broken, math.nan) for i, xs in outs.items()}
        xs = outs[last]
        if self.interctc_layer_idx:
            return (xs, [*outs.items()][:-1]), olens, None
        return ((xs, [*outs.values()]) if return_all_hs else xs), olens, None

    def check_features(self, xs_pad: Tensor) -> None:
        # convolutions would leave out what their strides do not reach
        expected = [] if self.input_layer == "embed" else [self.input_size]
        if list(xs_pad.shape[2:]) != expected:
            raise ValueError(
                f"xs_pad is {list(xs_pad.shape)}, and the encoder takes [B, T"
                f"{''.join(f', {n}' for n in expected)}]: give it features of the "
                "kind it was made for"
            )

    def encode(
        self,
        xs_pad: Tensor,
        ilens: Tensor,
        padded: bool,
        ends: Set[int],
        ctc: nn.Module | None,
    ) -> tuple[dict[int, Tensor], Tensor]:
        """The outputs after the layers `ends`, in their order, and their lengths."""
        xs, olens = self.embed(xs_pad), output_length(ilens, self.input_layer)
        xs = self.input_norm(self.input(xs.transpose(0, 1)))  # (T', B, d)
        outs = {}
        for first, last, pooling in stacks(self.layer_pooling, ends):
            layers = partial(self.run_layers, self.encoders[first:last], padded)
            xs = on_means(layers, xs, olens, pooling)
            if last in ends:
                outs[last] = self.project(xs, olens, padded)
            if last in self.interctc_layer_idx and self.interctc_use_conditioning:
                xs = xs + self.condition(ctc, outs[last])
        return outs, olens

    def run_layers(
        self, layers: nn.ModuleList, padded: bool, xs: Tensor, olens: Tensor
    ) -> Tensor:
        """Frames (T', B, d) after some of the layers, `olens` (B,) of them real."""
        # inference has tiles, which traced code has not
        compiles = self.compile_layers and self.training
        run = compiled() if compiles else call
        # without masks there is less to launch, but one graph is to serve both
        lengths = olens if padded or compiles else None
        for layer in layers:
            if self.gradient_checkpointing and self.training:
                hs = checkpoint(run, layer, xs, lengths, use_reentrant=False)
            else:
                hs = run(layer, xs, lengths)
            xs = self.drop_layer(xs, hs)
        return xs

    def drop_layer(self, x: Tensor, h: Tensor) -> Tensor:
        """Takes x in the place of the layer's h in some training batches.

        It selects, and does not skip the layer: with DDP every parameter needs a
        gradient in every step.
        """
        if not self.training or self.layer_drop_rate == 0:
            return h
        drop = torch.rand((), device=x.device) < self.layer_drop_rate
        return torch.where(drop, x.to(h.dtype), h)

    def project(self, xs: Tensor, olens: Tensor, padded: bool) -> Tensor:
        """Normalises (T', B, d) and projects it to (B, T', output_size).

        Outside of training an utterance's last frame is repeated to the padded end:
        ESPnet counts the CTC's errors there too, and repeated tokens as one.
        """
        xs = self.output(self.after_norm(xs)).transpose(0, 1)
        if xs.itemsize == 2 and torch.is_autocast_enabled(xs.device.type):
            # ESPnet's CTC gives its loss the type of these frames
            xs = xs.float()
        if self.training or not padded:
            return xs.contiguous()
        return repeat_last(xs, olens)

    def condition(self, ctc: nn.Module | None, xs: Tensor) -> Tensor:
        """Maps the CTC's posteriors of an output (B, T', output_size) to (T', B, d)."""
        if ctc is None or self.conditioning_layer is None:
            raise ValueError(
                "interctc_use_conditioning needs a CTC, which this task does not give "
                "its encoder: leave it out"
            )
        xs = self.conditioning_output(self.conditioning_layer(ctc.softmax(xs)))
        return xs.transpose(0, 1)
