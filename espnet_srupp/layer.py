"""One SRU++ layer (arXiv 2102.12459, 2110.05571): attention, then the recurrence."""

import functools
from collections.abc import Callable
from itertools import chain

import torch
from torch import Tensor, nn

from espnet_srupp.attention import SRUppAttention
from espnet_srupp.hooks import watched
from espnet_srupp.recurrence import recurrence, tiles


class SRUppLayer(nn.Module):
    """h = recurrence(U, x) with U = attention(x), as in Pan et al. (2021).

    Args:
        hidden_size: width d, even when `bidirectional`.
        attention_size: width d' of the attention.
        attention_heads: number of heads.
        bidirectional: the second half of the channels runs backward in time.
        attention: False makes it an SRU with a projection.
        query_norm: a layer norm of the queries, which the papers do not have.
        dropout_rate: on the projection, and of the state's channels (one mask for all
            frames); 0 to 1.
        attention_dropout_rate: on the attention weights; 0 to 1.
        forget_bias: where the forget gates' biases start; 1 is to remember.
        reset_bias: where the reset gates' start; -1 lets the highway carry the frames.
        state_weight: v, the gates' weights on the state, start within this of 0.
        fan_in_init: draws matrices by their fan-in; False: by Xavier's rule.

    Raises:
        ValueError: `hidden_size` is odd and `bidirectional` set, or `attention_size` is
            not a multiple of `attention_heads`.
    """

    def __init__(
        self,
        hidden_size: int,
        attention_size: int,
        attention_heads: int = 1,
        bidirectional: bool = True,
        attention: bool = True,
        query_norm: bool = True,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        forget_bias: float = 1.0,
        reset_bias: float = -1.0,
        state_weight: float = 0.5,
        fan_in_init: bool = True,
    ):
        super().__init__()
        if bidirectional and hidden_size % 2:
            raise ValueError(
                f"hidden_size {hidden_size} is odd: a bidirectional layer gives each "
                "direction half of it, choose an even one"
            )
        self.bidirectional = bidirectional
        self.dropout_rate = dropout_rate
        self.biases = forget_bias, reset_bias
        self.state_weight = state_weight
        self.attention = SRUppAttention(
            hidden_size,
            attention_size,
            attention_heads,
            attention,
            query_norm,
            dropout_rate,
            attention_dropout_rate,
            fan_in_init,
        )
        self.v = nn.Parameter(torch.empty(2, hidden_size))
        self.b = nn.Parameter(torch.empty(2, hidden_size))
        self.v._no_weight_decay = self.b._no_weight_decay = True
        self.espnet_initialization_fn()

    def espnet_initialization_fn(self) -> None:
        """Sets the gates' weights on the state and their biases."""
        nn.init.uniform_(self.v, -self.state_weight, self.state_weight)
        for bias, start in zip(self.b, self.biases, strict=True):
            nn.init.constant_(bias, start)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Maps frames (T, B, d), `lengths` (B,) of them real, and the others to 0."""
        if self.in_tiles(x):
            return self.recur_in_tiles(x, lengths)
        u = self.attention(x, lengths)  # (T, B, 3, d)
        mask_c = None
        if self.training and self.dropout_rate > 0:
            mask_c = nn.functional.dropout(
                self.v.new_ones(x.shape[1:]), self.dropout_rate
            )
        h, _ = recurrence(
            u,
            x.to(u.dtype),
            self.v,
            self.b,
            lengths=lengths,
            bidirectional=self.bidirectional,
            mask_c=mask_c,
        )
        return h

    def in_tiles(self, x: Tensor) -> bool:
        """Whether U is made tile by tile: at inference, by a plain linear layer.

        Not where somebody watches, replaces, prunes or drops within the attention, as
        tiles call its modules by parts.
        """
        # first, as on a GPU the rest would take its host long
        # v and b by name, as who asks for tangents may have put plain tensors there
        if not tiles.serves(x, chain((self.v, self.b), self.parameters())):
            return False
        attention = self.attention
        output = attention.output
        plain = type(attention) is SRUppAttention and type(output) is nn.Linear
        plain = plain and output.bias is None and type(output.weight) is nn.Parameter
        plain = plain and type(attention.dropout) is nn.Dropout
        if not plain or self.training or attention.dropout.training:
            return False
        return not watched(attention.modules())

    def recur_in_tiles(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        q = self.attention.attended(x, lengths)  # (T, B, d')
        weight = self.attention.output.weight.to(q.dtype)
        return tiles.project(
            q, weight, x.to(q.dtype), self.v, self.b, lengths, self.bidirectional
        )


def call(layer: SRUppLayer, x: Tensor, lengths: Tensor | None) -> Tensor:
    return layer(x, lengths)


@functools.cache
def compiled() -> Callable[[SRUppLayer, Tensor, Tensor | None], Tensor]:
    """`call` as torch.compile makes it: once for all layers alike, whatever T and B.

    With DDP too: its own compiler cuts graphs where gradients are to be sent, which
    fails where T and B are not fixed, and which layers one by one do not need. A layer
    with other hooks than the one before is compiled for itself.
    """
    whole = torch._dynamo.config.patch(
        optimize_ddp=False, skip_nnmodule_hook_guards=False
    )
    return whole(torch.compile(call, dynamic=True))
