"""The attention of SRU++ (Lei 2021, arXiv 2102.12459), which feeds the recurrence.

Where an SRU has a linear layer from frames to its three inputs U, SRU++ projects the
frames to narrow queries, attends from them, and makes U of that.
"""

import math

import torch
from torch import Tensor, nn

from espnet_srupp import softmax
from espnet_srupp.precision import computed_in

LARGE = torch.finfo(torch.float16).max / 2


class SRUppAttention(nn.Module):
    """U = LayerNorm(Q + alpha softmax(Q K^T / sqrt(d'/heads)) V) Wo^T.

    Q = LayerNorm(X Wq^T), K = Q Wk^T, V = Q Wv^T; alpha is learned and starts at 0,
    where this is the projection of an SRU. Without attention there are no Wk, Wv, alpha
    and no norm of Q.

    The papers have no norm of Q. The one before Wo takes Q's scale away, so that
    nothing keeps it where the scores, which grow by its square, have useful gradients.

    Args:
        hidden_size: width d of the frames.
        attention_size: width d' of the queries, a multiple of `attention_heads`.
        attention_heads: number of heads.
        attention: False leaves the projection only.
        query_norm: False leaves out the norm of Q, as in the papers.
        dropout_rate: on the projection, before Wo; 0 to 1.
        attention_dropout_rate: on the attention weights; 0 to 1.
        fan_in_init: draws matrices by their fan-in; False: by Xavier's rule, so that U
            starts small where d' is.

    Raises:
        ValueError: `attention_size` is not a multiple of `attention_heads`.
    """

    def __init__(
        self,
        hidden_size: int,
        attention_size: int,
        attention_heads: int = 1,
        attention: bool = True,
        query_norm: bool = True,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        fan_in_init: bool = True,
    ):
        super().__init__()
        if attention_size % attention_heads:
            raise ValueError(
                f"attention_size {attention_size} is not a multiple of "
                f"attention_heads {attention_heads}: choose one that is"
            )
        self.heads = attention_heads
        self.attention = attention
        self.attention_dropout_rate = attention_dropout_rate
        self.fan_in_init = fan_in_init
        self.query = nn.Linear(hidden_size, attention_size, bias=False)
        self.query_norm = nn.Identity()
        if attention and query_norm:
            self.query_norm = nn.LayerNorm(attention_size)
        if attention:
            self.key = nn.Linear(attention_size, attention_size, bias=False)
            self.value = nn.Linear(attention_size, attention_size, bias=False)
            # one dimension: ESPnet 202511's `init: chainer` refuses parameters of none
            self.alpha = nn.Parameter(torch.zeros(1))
            self.alpha._no_weight_decay = True
        self.norm = nn.LayerNorm(attention_size)
        self.dropout = nn.Dropout(dropout_rate)
        self.output = nn.Linear(attention_size, 3 * hidden_size, bias=False)
        self.espnet_initialization_fn()

    def espnet_initialization_fn(self) -> None:
        """Draws the matrices; by their fan-in, U starts with unit deviation."""
        for name, module in self.named_children():
            if isinstance(module, nn.Linear):
                self.draw(module.weight, joint=name in ("key", "value"))
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()
        if self.attention:
            nn.init.zeros_(self.alpha)

    def draw(self, weight: Tensor, joint: bool) -> None:
        """Draws a matrix; `joint`: which is half of one in SRU++'s public code."""
        if self.fan_in_init:
            nn.init.kaiming_uniform_(weight, nonlinearity="linear")
        else:
            nn.init.xavier_uniform_(weight, math.sqrt(2 / 3) if joint else 1.0)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Maps frames (T, B, d), `lengths` (B,) of them real, to U (T, B, 3, d)."""
        T, B, D = x.shape
        return self.output(self.dropout(self.attended(x, lengths))).view(T, B, 3, D)

    def attended(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """What `output` makes U of: (T, B, d) -> (T, B, d')."""
        q = self.queries(x)
        if self.attention:
            dropout_rate = self.attention_dropout_rate if self.training else 0.0
            y = q.to(computed_in(q))  # autocast would do it again for each product
            z = y if softmax.fused(self.split(y), dropout_rate) else softmax.aligned(y)
            keys = None
            if lengths is not None:
                keys = torch.arange(z.shape[0], device=x.device) < lengths[:, None]
            heads = [self.split(each) for each in (y, self.key(z), self.value(z))]
            a = softmax.attend(*heads, keys, dropout_rate)  # (B, heads, T, d'/heads)
            a = a.permute(2, 0, 1, 3).reshape(q.shape)
            a = self.alpha.to(q.dtype) * a
            if a.dtype == torch.float16:
                # where alpha or Q is huge; the norm takes the scale away in any case
                q, a = (each.clamp(-LARGE, LARGE) for each in (q, a))
            q = q + a
        return self.norm(q)

    def queries(self, x: Tensor) -> Tensor:
        """Q of the frames: (T, B, d) -> (T, B, d')."""
        return self.query_norm(self.query(x))

    def split(self, y: Tensor) -> Tensor:
        """Views (T, B, d') as (B, heads, T, d'/heads)."""
        T, B, E = y.shape
        return y.view(T, B, self.heads, E // self.heads).permute(1, 2, 0, 3)
