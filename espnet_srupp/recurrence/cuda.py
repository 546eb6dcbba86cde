"""The recurrence on an NVIDIA GPU: kernels/recurrence.cu, compiled at first use.

CuPy compiles and launches it, in torch's current stream and in memory of torch's
allocator. Nothing waits for the GPU, so that CUDA graphs can record it, once a call
with the same shapes and types has compiled and loaded the kernel. For that reason
lengths out of range are no error here: the kernel clamps them to [0, T].
kernels/README.md has the launch geometry and its reasons.
"""

import contextlib
import functools
import importlib.resources
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

NAMES = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float",
    torch.float64: "double",
}
# with contraction a column's rounding could depend on how many a thread walks
OPTIONS = ("-std=c++17", "--fmad=false")
WARP = 32
WIDEST = 16  # bytes that an instruction moves
WIDE = 8  # of a lane's u and x, beyond which it was slower
WORD = 4
# a lane takes so many channels where as many warps are left to each multiprocessor
WARPS = {2: 1.5, 4: 6}
# ahead: the first of these that fit
FRAMES = 32, 24, 16, 12, 8
# share of a multiprocessor's shared memory that holds frames fetched ahead
SHARE = 0.3
# and of a block at most; it may have 48 KB without asking for more
RING_BYTES = 40 * 1024
# frames ahead times channels, at least
LEAST = 16
# frames between saved states, from which a backward pass computes the others again
EVERY = 4


class Geometry(NamedTuple):
    """How a launch divides its work; it never changes a result."""

    channels: int  # of a lane: 1, 2 or 4
    frames: int  # fetched ahead
    copied: int  # bytes, each time


class Stream(NamedTuple):
    """What CuPy reads of a stream."""

    ptr: int


class Card(NamedTuple):
    """What the geometry depends on."""

    multiprocessors: int
    shared_bytes: int  # of each
    copies_ahead: bool  # asynchronously, into shared memory


def forward(
    u: Tensor,
    x: Tensor,
    v: Tensor,
    b: Tensor,
    c0: Tensor | None,
    lengths: Tensor | None,
    mask_c: Tensor | None,
    bidirectional: bool,
    save_c: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """(h, c_last, c), as `operator.recurrence_forward`; c is (saved(T), B, D)."""
    T, B, D = x.shape
    inputs = _contiguous(u, x, v, b, c0, lengths, mask_c)
    h, c_last = x.new_empty(T, B, D), v.new_empty(B, D)
    c = v.new_empty((saved(T), B, D) if save_c else (0,))
    every = EVERY if save_c else 0
    _launch("forward", x, v, bidirectional, inputs, [h, c_last, c], every)
    return h, c_last, c


def backward(
    dh: Tensor,
    dc_last: Tensor | None,
    u: Tensor,
    x: Tensor,
    v: Tensor,
    b: Tensor,
    c0: Tensor | None,
    lengths: Tensor | None,
    mask_c: Tensor | None,
    c: Tensor,
    bidirectional: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(du, dx, dv, db, dc0), as `operator.recurrence_backward`."""
    T, B, D = x.shape
    inputs = _contiguous(dh, dc_last, u, x, v, b, c0, lengths, mask_c, c)
    du, dx = x.new_empty(T, B, 3, D), x.new_empty(T, B, D)
    # sums over time, one for each row of the batch
    sums, dc0 = v.new_empty(2, B, 2, D), v.new_empty(B, D)
    _launch("backward", x, v, bidirectional, inputs, [du, dx, *sums, dc0], EVERY)
    dv, db = sums.sum(1)
    # torch.compile takes a result to begin at a multiple of 16 bytes
    return du, dx, dv, db.clone() if D % 2 else db, dc0


def saved(T: int) -> int:
    """States of a row that are saved; the one at j has EVERY j frames to come."""
    return (T + EVERY - 1) // EVERY


def _contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    return [None if t is None else _movable(t.contiguous()) for t in tensors]


def _movable(tensor: Tensor) -> Tensor:
    """A copy of a small tensor at an odd address, so that its loads can be wide."""
    odd = tensor.dim() == 2 and tensor.data_ptr() % WIDEST != 0
    return tensor.clone() if odd else tensor


def _launch(
    kernel: str,
    x: Tensor,
    v: Tensor,
    bidirectional: bool,
    inputs: list[Tensor | None],
    outputs: list[Tensor],
    every: int,
) -> None:
    T, B, D = x.shape
    width = D // (1 + bidirectional)
    # what a kernel fetches for a column and frame: u, x and, backward, dh and some c
    fetched, together = 4 * x.itemsize, 1
    if kernel == "backward":
        fetched, together = 5 * x.itemsize + v.itemsize // every, every
    pointers = [0 if t is None else t.data_ptr() for t in (*inputs, *outputs)]
    places = width * x.itemsize
    for t, pointer in zip(inputs, pointers, strict=False):
        if t is not None and t.dtype != torch.int64 and pointer % WIDEST:
            places |= pointer // t.itemsize * x.itemsize
    # a power of two, of which all places are multiples
    fitting = min(places & -places, WIDEST)
    card = _card(x.device)
    geometry = choose(B * D, fitting, fetched, x.itemsize, together, card)
    # a warp has channels of one row and one direction
    warps = B * (D // width) * -(-width // (WARP * geometry.channels))
    if warps:
        name = instance(kernel, x.dtype, v.dtype, geometry, every)
        _start(name, x.device, warps, (T, B, D, width, *pointers))


@functools.cache
def instance(
    kernel: str,
    io: torch.dtype,
    state: torch.dtype,
    geometry: Geometry,
    every: int,
) -> str:
    """The C++ name of a template instance, as NVRTC is asked for it."""
    values = NAMES[io], NAMES[state], *geometry, every
    return f"{kernel}<{', '.join(map(str, values))}>"


@functools.cache
def choose(
    columns: int, fitting: int, fetched: int, io: int, together: int, card: Card
) -> Geometry:
    """Many channels to a lane where they abound, many frames ahead where not.

    Args:
        columns: rows times channels.
        fitting: bytes, of which the size of a direction's channels and where tensors
            begin are multiples; `WIDEST` at most.
        fetched: bytes for a column and frame.
        io: bytes of a number of u and x.
        together: frames that are walked as one, of which the frames ahead are a
            multiple, and twice as many at least.
        card: what it runs on.
    """
    warps = columns / WARP / card.multiprocessors
    # 4 would take more registers than there are
    most = 4 if card.copies_ahead else 2
    channels = 1
    for n, least in WARPS.items():
        # of 2 bytes, one to a lane was slower at any size
        many = n * io <= WORD or warps / n >= least
        if many and n <= most and n * io <= min(copied(fitting, io), WIDE):
            channels = n
    # a warp's share of the shared memory
    room = min(SHARE * card.shared_bytes * channels / max(warps, 1), RING_BYTES)
    deep = (n for n in FRAMES if n * channels * fetched * WARP <= room)
    frames = max(next(deep, 0), LEAST // channels, 2 * together)
    return Geometry(channels, frames, copied(fitting, io))


def copied(fitting: int, io: int) -> int:
    """Bytes of a copy into the ring; fewer than a word are not copied ahead."""
    return fitting if fitting == WIDEST else max(io, min(fitting, WORD))


@functools.cache
def _card(device: torch.device) -> Card:
    card = torch.cuda.get_device_properties(device)
    shared_bytes = card.shared_memory_per_multiprocessor
    return Card(card.multi_processor_count, shared_bytes, card.major >= 8)


def _start(name: str, device: torch.device, warps: int, args: tuple) -> None:
    # CuPy launches on the current device, which here is another one at times
    there = device.index == torch.cuda.current_device()
    with contextlib.nullcontext() if there else torch.cuda.device(device):
        stream = Stream(torch.cuda.current_stream(device).cuda_stream)
        _kernel(name, device)((warps,), (WARP,), args, stream=stream)


@functools.cache
def _kernel(name: str, device: torch.device):
    """Compiles for the current device, `device`, or loads from CuPy's cache on disk."""
    code = importlib.resources.files("espnet_srupp.kernels") / "recurrence.cu"
    module = _cupy().RawModule(
        code=code.read_text(), options=OPTIONS, name_expressions=[name]
    )
    with _cache_named():
        kernel = module.get_function(name)
    kernel.preferred_shared_memory_carveout = 100  # per cent: nothing is read twice
    # what it calls itself, but for a lookup and without a stream
    return kernel.kernel


@contextlib.contextmanager
def _cache_named() -> Iterator[None]:
    """Says what to do where CuPy has no folder, by default in the home, for kernels."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"recurrence: CuPy cannot keep compiled kernels ({error}): let "
            "CUPY_CACHE_DIR name a folder that can be written"
        ) from error


def _cupy() -> ModuleType:
    if torch.version.cuda is None:
        raise ImportError(
            "recurrence: this PyTorch is not built for CUDA; install one that is, or "
            'move the tensors to the CPU, or pass backend="reference".'
        )
    extra = "cuda12" if int(torch.version.cuda.split(".")[0]) < 13 else "cuda13"
    remedy = f"run pip install '.[{extra}]' in the checkout of espnet_srupp."
    try:
        with _cache_named():
            import cupy
    except ImportError as error:
        raise ImportError(
            f"recurrence: tensors on a GPU need CuPy; {remedy}"
        ) from error
    return cupy
