"""`recurrence(...)`, and the torch operators underneath that give it its gradient.

`espnet_srupp::recurrence_forward` and `..._backward` are opaque to torch.compile and
torch.export: each sees one node, whose shapes the fake implementations tell.
"""

import functools
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.autograd import Function, forward_ad

# `team` not when first needed, as it is to see the process that imports this
from . import cuda, reference, team  # noqa: F401

STATE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
STATE |= {dtype: dtype for dtype in (torch.float32, torch.float64)}
BACKENDS = ("reference", "cpu", "cuda")


def recurrence(
    u: Tensor,
    x: Tensor,
    v: Tensor,
    b: Tensor,
    c0: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    bidirectional: bool = False,
    mask_c: Tensor | None = None,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """SRU's elementwise recurrence (Lei et al. 2018, arXiv 1709.02755, eq. 3-7).

        f_t = sigmoid(u_t[0] + v[0] * c_{t-1} + b[0])
        r_t = sigmoid(u_t[1] + v[1] * c_{t-1} + b[1])
        c_t = f_t * c_{t-1} + (1 - f_t) * u_t[2]
        h_t = r_t * c_t * mask_c + (1 - r_t) * x_t

    Args:
        u: (T, B, 3, D), the projected input: forget gate, reset gate, candidate;
            float16, bfloat16, float32 or float64.
        x: (T, B, D), the highway input, of u's type.
        v: (2, D), the gates' weights on the state, row 0 forget, row 1 reset.
        b: (2, D), the gates' biases, in the same order.
        c0: (B, D), the state before each row's first frame; zeros if None.
        lengths: (B,) int64 in [0, T], frames of each row; T if None. Frames beyond
            are neither read nor counted. Lengths out of range are an error of "cpu"
            alone: on a GPU, where the CPU would have to wait for them, and by
            "reference", which can be traced, they are clamped.
        bidirectional: channels [D/2, D) walk from each row's last frame to its first.
        mask_c: (B, D), a dropout mask, already scaled, on the state that reaches h,
            the same for all frames. It gets no gradient.
        backend: "reference", "cpu" or "cuda"; None chooses by u's device.

    Returns:
        h: (T, B, D) of u's type, zero at padded frames.
        c_last: (B, D), the state after each row's last frame in its direction, of the
            state's type: float64 for float64, else float32.

    Raises:
        ValueError: a shape, length, type, layout, device or backend does not fit.
        NotImplementedError: forward-mode AD, which only "reference" serves.
        RuntimeError: a second derivative, or one by torch.func.grad and its kin, which
            only "reference" serves.
        ImportError: the tensors are on a GPU, and CuPy is missing.
        OSError: CuPy has no folder for compiled kernels.
    """
    _check(u, x, v, b, c0, lengths, mask_c, bidirectional)
    state = STATE[u.dtype]
    v, b = v.to(state), b.to(state)
    c0 = None if c0 is None else c0.to(state)
    mask_c = None if mask_c is None else mask_c.detach().to(state)
    if _choose(backend, u.device.type) == "reference":
        return reference.recurrence(u, x, v, b, c0, lengths, mask_c, bidirectional)
    differentiable = [t for t in (u, x, v, b, c0) if t is not None]
    # asking each tensor takes the host of a GPU long
    dual = forward_ad._current_level >= 0
    if dual and any(
        forward_ad.unpack_dual(t).tangent is not None for t in differentiable
    ):
        # torch would take them for zeros
        raise NotImplementedError(
            "recurrence: the kernels have no tangents for forward-mode AD; pass "
            'backend="reference".'
        )
    # torch.jit.trace checks what it has traced by tracing it again without gradients
    grad = torch.is_grad_enabled() or torch.jit.is_tracing()
    save_c = grad and any(t.requires_grad for t in differentiable)
    h, c_last, _ = recurrence_forward(
        u, x, v, b, c0, lengths, mask_c, bidirectional, save_c
    )
    return h, c_last


def _choose(backend: str | None, device: str) -> str:
    if backend == "reference":
        return backend
    if backend not in (None, *BACKENDS):
        raise ValueError(f"recurrence: backend {backend!r} is not one of {BACKENDS}.")
    if device not in ("cpu", "cuda"):
        raise ValueError(
            f"recurrence: no kernel for tensors on {device!r}; move them to the CPU "
            'or an NVIDIA GPU, or pass backend="reference".'
        )
    if backend not in (None, device):
        raise ValueError(
            f"recurrence: backend {backend!r} does not serve tensors on {device!r}; "
            "move them or pass backend=None."
        )
    return device


def _check(u, x, v, b, c0, lengths, mask_c, bidirectional) -> None:
    if u.dim() != 4 or u.shape[2] != 3:
        raise ValueError(f"recurrence: u is {tuple(u.shape)}, expected (T, B, 3, D).")
    if u.dtype not in STATE:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in STATE)
        raise ValueError(f"recurrence: u is {u.dtype}, expected one of {names}.")
    T, B, _, D = u.shape
    if D == 0:
        raise ValueError("recurrence: D is 0, expected a channel or more.")
    if bidirectional and D % 2:
        raise ValueError(f"recurrence: D is {D}, expected an even number of channels.")
    names = "u", "x", "v", "b", "c0", "mask_c", "lengths"
    tensors = u, x, v, b, c0, mask_c, lengths
    shapes = (T, B, 3, D), (T, B, D), (2, D), (2, D), (B, D), (B, D), (B,)
    for name, tensor, shape in zip(names, tensors, shapes, strict=True):
        if tensor is None:
            continue
        if tuple(tensor.shape) != shape:
            got = tuple(tensor.shape)
            raise ValueError(f"recurrence: {name} is {got}, expected {shape}.")
        if tensor.layout != torch.strided:
            raise ValueError(
                f"recurrence: {name} is {tensor.layout}, expected a dense tensor."
            )
        if tensor.device != u.device:
            raise ValueError(
                f"recurrence: {name} is on {tensor.device}, u on {u.device}; "
                "move them to one device."
            )
    if x.dtype != u.dtype:
        raise ValueError(f"recurrence: x is {x.dtype}, u {u.dtype}; cast one of them.")
    if lengths is not None and lengths.dtype != torch.int64:
        raise ValueError(f"recurrence: lengths is {lengths.dtype}, expected int64.")


# by torch.library's plain functions, as its `custom_op` takes longer to call
LIBRARY = torch.library.Library("espnet_srupp", "DEF")
LIBRARY.define(
    "recurrence_forward(Tensor u, Tensor x, Tensor v, Tensor b, Tensor? c0, "
    "Tensor? lengths, Tensor? mask_c, bool bidirectional, bool save_c) "
    "-> (Tensor h, Tensor c_last, Tensor c)",
    tags=torch.Tag.pt2_compliant_tag,
)
LIBRARY.define(
    "recurrence_backward(Tensor dh, Tensor? dc_last, Tensor u, Tensor x, Tensor v, "
    "Tensor b, Tensor? c0, Tensor? lengths, Tensor? mask_c, Tensor c, "
    "bool bidirectional) -> (Tensor du, Tensor dx, Tensor dv, Tensor db, Tensor dc0)",
    tags=torch.Tag.pt2_compliant_tag,
)
# c only where `save_c`, for the backward pass: (T, B, D), on a GPU fewer states
recurrence_forward = torch.ops.espnet_srupp.recurrence_forward.default
recurrence_backward = torch.ops.espnet_srupp.recurrence_backward.default


def register_kernels(backend: str) -> None:
    """Has `backend`'s module run the operators; it is imported when first needed."""

    @functools.cache
    def module() -> ModuleType:
        return import_module(f".{backend}", __package__)

    def forward(*args):
        return module().forward(*args)

    def backward(*args):
        return module().backward(*args)

    LIBRARY.impl("recurrence_forward", forward, backend.upper())
    LIBRARY.impl("recurrence_backward", backward, backend.upper())


register_kernels("cpu")
register_kernels("cuda")


@torch.library.register_fake("espnet_srupp::recurrence_forward", lib=LIBRARY)
def _(u, x, v, b, c0, lengths, mask_c, bidirectional, save_c):
    T, B, D = x.shape
    states = cuda.saved(T) if x.is_cuda else T
    c = v.new_empty((states, B, D) if save_c else (0,))
    return x.new_empty(T, B, D), v.new_empty(B, D), c


@torch.library.register_fake("espnet_srupp::recurrence_backward", lib=LIBRARY)
def _(dh, dc_last, u, x, v, b, c0, lengths, mask_c, c, bidirectional):
    # new tensors are contiguous, as the kernels', whatever the strides of these
    grads = [tensor.new_empty(tensor.shape) for tensor in (u, x, v, b)]
    return *grads, v.new_empty(x.shape[1:])


class Recurrence(Function):
    @staticmethod
    def forward(ctx, *args):
        with torch._C._AutoDispatchBelowAutograd():
            h, c_last, c = recurrence_forward(*args)
        *tensors, ctx.bidirectional, ctx.save_c = args
        ctx.save_for_backward(*tensors, c)
        ctx.set_materialize_grads(False)
        return h, c_last, c

    @staticmethod
    def backward(ctx, dh, dc_last, _):
        if not ctx.save_c:
            raise RuntimeError(
                "recurrence: it was traced or exported without gradients, so no states "
                "were saved; do that where gradients are enabled."
            )
        u, x, v, b, c0, lengths, mask_c, c = ctx.saved_tensors
        dh = torch.zeros_like(x) if dh is None else dh
        du, dx, dv, db, dc0 = recurrence_backward(
            dh, dc_last, u, x, v, b, c0, lengths, mask_c, c, ctx.bidirectional
        )
        dc0 = None if c0 is None else dc0
        return du, dx, dv, db, dc0, None, None, None, None


class SecondRecurrence(Function):
    """Refuses a second derivative, but not to be traced for one."""

    @staticmethod
    def forward(ctx, *args):
        with torch._C._AutoDispatchBelowAutograd():
            return recurrence_backward(*args)

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(
            "recurrence: the kernels have no second derivatives; pass "
            'backend="reference".'
        )


def register_autograd(operator: OpOverload, function: type[Function]) -> None:
    """Has torch's autograd go through `function` where a gradient is asked for."""

    def run(*args):
        tensors = (a for a in args if isinstance(a, Tensor))
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return function.apply(*args)
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*args)

    LIBRARY.impl(operator.name(), run, "Autograd")


register_autograd(recurrence_forward, Recurrence)
register_autograd(recurrence_backward, SecondRecurrence)
