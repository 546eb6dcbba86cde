"""The numba loops of the CPU backend.

A loop over a frame's channels does all that it can at once, so that a number is loaded
and stored once. LLVM vectorises such a loop only while it has few pairs of arrays to
check for overlap; so what belongs to a block lies in one array `w` of one dimension, in
rows at constant distances, and a loop writes either there or to one array.

Letters as in kernels/README.md; a `d` before a letter makes it a gradient.
"""

from .bfloat16 import put, widen
from .compiled import jit
from .prefetch import fetch
from .sigmoid import scale, sigmoid, unscale

# most channels of a block: enough to walk whole memory pages, few enough for two
# threads to share one long utterance
BLOCK = 1024
# from one row of w to the next: a power of two would let the rows share the few places
# of a cache, and their numbers push each other out
ROW = BLOCK + 32
SIZE = 16 * ROW
# the gates' weights and biases up to which float32 holds what they are scaled to
MOST = 2e38
V0, V1, B0, B1, MASK, C, R, DC, DX, DU0, DU1, DU2, DV0, DV1, DB0, DB1 = range(
    0, SIZE, ROW
)


@jit
def _begin(w, v, b, mask, c):
    """Fills the rows that both passes need from v, b (2, n), mask and c (n,).

    Rows V and B as the sigmoid wants them, and finite, since an infinite V makes NaN of
    a state that is 0.
    """
    n = c.size
    for gate in range(2):
        for i in range(n):
            w[V0 + gate * ROW + i] = scale(max(min(v[gate, i], MOST), -MOST))
            w[B0 + gate * ROW + i] = scale(max(min(b[gate, i], MOST), -MOST))
    w[MASK : MASK + n], w[C : C + n] = mask, c


@jit
def _store(numbers, target):
    for i in range(target.size):
        put(target, i, numbers[i])


@jit
def _fill_padding(target, length):
    """target[length:] = 0, target (T, n)"""
    for t in range(length, len(target)):
        for i in range(target.shape[1]):
            target[t, i] = 0


@jit
def _state(u0, u1, u2, w):
    """c = f c + (1 - f) u2, and r"""
    for i in range(u0.size):
        c = w[C + i]
        f = sigmoid(scale(widen(u0[i])) + (w[V0 + i] * c + w[B0 + i]))
        w[R + i] = sigmoid(scale(widen(u1[i])) + (w[V1 + i] * c + w[B1 + i]))
        candidate = widen(u2[i])
        w[C + i] = candidate + f * (c - candidate)


@jit
def _highway(x, w, h):
    """h = r c mask + (1 - r) x"""
    for i in range(h.size):
        x_i = widen(x[i])
        put(h, i, x_i + w[R + i] * (w[C + i] * w[MASK + i] - x_i))


@jit
def forward(
    w,
    blocks,
    worker,
    workers,
    first,
    frames,
    rows,
    u,
    steps,
    x,
    v,
    b,
    mask,
    lengths,
    h,
    state,
    c,
    cached,
):
    """Jobs worker, worker + workers, ...: fills h and, unless empty, c; `w` (SIZE,).

    It walks `frames` frames of these rows of the batch from frame `first` on. In u
    (N, n), which begins with the first block's channel, a frame, a row and a gate are
    `steps` away from the next. `state` (B, D) goes from the one before these frames to
    the one after them. `cached`: u is in the cache.
    """
    offset = blocks[0, 0]
    step_t, step_k, step_gate = steps
    for job in range(worker, len(blocks) * rows.size, workers):
        k = job % rows.size
        start, end, back = blocks[job // rows.size]
        row, s, s_u = rows[k], slice(start, end), slice(start - offset, end - offset)
        length = min(lengths[row] - first, frames)
        _begin(w, v[:, s], b[:, s], mask[row, s], state[row, s])
        c_t = w[C : C + end - start]
        for step in range(length):
            i = length - 1 - step if back else step
            t, at = first + i, i * step_t + k * step_k
            if step + 1 < length:
                way = -1 if back else 1
                fetch(x[t + way, row, s])
                for gate in range(0 if cached else 3):
                    fetch(u[at + way * step_t + gate * step_gate, s_u])
            u0, u1, u2 = u[at, s_u], u[at + step_gate, s_u], u[at + 2 * step_gate, s_u]
            _state(u0, u1, u2, w)
            _highway(x[t, row, s], w, h[t, row, s])
            if len(c):
                _store(c_t, c[t, row, s])
        _store(c_t, state[row, s])
        _fill_padding(h[first : first + frames, row, s], length)


@jit
def _gradients(u0, u1, u2, x, dh, before, w):
    """A frame's dx, du, and dc for the one before; adds to dv and db.

    Row C has the state after the frame and gets `before`, the one before it.
    """
    for i in range(u0.size):
        earlier, dh_i = before[i], widen(dh[i])
        candidate, x_i = widen(u2[i]), widen(x[i])
        f = sigmoid(scale(widen(u0[i])) + (w[V0 + i] * earlier + w[B0 + i]))
        r = sigmoid(scale(widen(u1[i])) + (w[V1 + i] * earlier + w[B1 + i]))
        dr = dh_i * (w[C + i] * w[MASK + i] - x_i) * (r - r * r)
        dc = w[DC + i] + dh_i * r * w[MASK + i]
        df = dc * (earlier - candidate) * (f - f * f)
        w[DX + i] = dh_i - r * dh_i
        w[DU0 + i] = df
        w[DU1 + i] = dr
        w[DU2 + i] = dc - f * dc
        w[DV0 + i] += df * earlier
        w[DV1 + i] += dr * earlier
        w[DB0 + i] += df
        w[DB1 + i] += dr
        w[DC + i] = f * dc + unscale(w[V0 + i] * df + w[V1 + i] * dr)
        w[C + i] = earlier


@jit
def backward(
    w,
    blocks,
    worker,
    workers,
    u,
    x,
    v,
    b,
    c0,
    mask,
    lengths,
    dh,
    dc_last,
    c,
    du,
    dx,
    dv,
    db,
    dc0,
):
    """Jobs as in `forward`; dv and db (B, 2, D) are each row's own sums over time."""
    B = lengths.size
    for job in range(worker, len(blocks) * B, workers):
        row = job % B
        start, end, back = blocks[job // B]
        s, n = slice(start, end), end - start
        length = lengths[row]
        last = c0[row, s]
        if length:
            last = c[0 if back else length - 1, row, s]
        _begin(w, v[:, s], b[:, s], mask[row, s], last)
        w[DC : DC + n] = dc_last[row, s]
        w[DV0:] = 0
        for step in range(length - 1, -1, -1):
            t = length - 1 - step if back else step
            earlier = t + 1 if back else t - 1
            before = c[earlier, row, s] if step else c0[row, s]
            if step:
                for gate in range(3):
                    fetch(u[earlier, row, gate, s])
                fetch(x[earlier, row, s])
                fetch(dh[earlier, row, s])
            if step > 1:
                fetch(c[2 * earlier - t, row, s])
            u0, u1, u2 = u[t, row, 0, s], u[t, row, 1, s], u[t, row, 2, s]
            _gradients(u0, u1, u2, x[t, row, s], dh[t, row, s], before, w)
            _store(w[DX : DX + n], dx[t, row, s])
            for gate in range(3):
                from_row = DU0 + gate * ROW
                _store(w[from_row : from_row + n], du[t, row, gate, s])
        for gate in range(2):
            _store(w[DV0 + gate * ROW :], dv[row, gate, s])
            _store(w[DB0 + gate * ROW :], db[row, gate, s])
        _store(w[DC : DC + n], dc0[row, s])
        _fill_padding(dx[:, row, s], length)
        for gate in range(3):
            _fill_padding(du[:, row, gate, s], length)
