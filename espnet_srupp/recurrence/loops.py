"""The numba loops of the CPU backend.

Each small function is one loop over channels that writes one array: LLVM vectorises a
loop only while it has few pairs of arrays to check for overlap, and only if they are
cut to one dimension at once: a[t, row, gate, s], as a[t, row, :, s][gate] may have any
stride.

Letters as in kernels/README.md; a `d` before a letter makes it a gradient, a `w` names
room for what bfloat16 widens to; n channels are a block's.
"""

import numpy as np

from .bfloat16 import place, read, write
from .compiled import jit
from .exponential import exp
from .prefetch import fetch


@jit
def _gate(u, v, b, c, f):
    """f = sigmoid(u + v c + b)"""
    one = f.dtype.type(1)
    for i in range(f.size):
        f[i] = one / (one + exp(-(u[i] + v[i] * c[i] + b[i])))


@jit
def _state(u, f, c):
    """c = f c + (1 - f) u"""
    for i in range(c.size):
        c[i] = u[i] + f[i] * (c[i] - u[i])


@jit
def _highway(x, r, c, mask, h):
    """h = r c mask + (1 - r) x"""
    for i in range(h.size):
        h[i] = x[i] + r[i] * (c[i] * mask[i] - x[i])


@jit
def _copy(source, target):
    for i in range(target.size):
        target[i] = source[i]


@jit
def _fill_padding(target, length):
    """target[length:] = 0, target (T, n)"""
    for t in range(length, len(target)):
        for i in range(target.shape[1]):
            target[t, i] = 0


@jit
def forward(
    blocks, worker, workers, first, rows, u, x, v, b, mask, lengths, h, state, c
):
    """Jobs worker, worker + workers, ...: fills h and, unless empty, c.

    u (frames, len(rows), 3, n) begins with frame `first` and the first block's channel;
    `state` (B, D) goes from the one before these frames to the one after them.
    """
    offset = blocks[0, 0]
    for job in range(worker, len(blocks) * rows.size, workers):
        k = job % rows.size
        start, end, back = blocks[job // rows.size]
        row, s, s_u = rows[k], slice(start, end), slice(start - offset, end - offset)
        length = min(lengths[row] - first, len(u))
        c_t = state[row, s]
        f, r = np.empty_like(c_t), np.empty_like(c_t)
        w, w_h = np.empty_like(c_t), np.empty_like(c_t)
        v0, v1, b0, b1, m = v[0, s], v[1, s], b[0, s], b[1, s], mask[row, s]
        for step in range(length):
            i = length - 1 - step if back else step
            t = first + i
            if step + 1 < length:
                ahead = i - 1 if back else i + 1
                for gate in range(3):
                    fetch(u[ahead, k, gate, s_u])
                fetch(x[first + ahead, row, s])
            _gate(read(u[i, k, 0, s_u], w), v0, b0, c_t, f)
            _gate(read(u[i, k, 1, s_u], w), v1, b1, c_t, r)
            _state(read(u[i, k, 2, s_u], w), f, c_t)
            h_t = place(h[t, row, s], w_h)
            _highway(read(x[t, row, s], w), r, c_t, m, h_t)
            write(h[t, row, s], h_t)
            if len(c):
                _copy(c_t, c[t, row, s])
        _fill_padding(h[first : first + len(u), row, s], length)


@jit
def _grad_x(dh, r, dx):
    """dx = (1 - r) dh"""
    for i in range(dx.size):
        dx[i] = dh[i] - r[i] * dh[i]


@jit
def _grad_reset(dh, x, r, c, mask, du):
    """du[1] = (c mask - x) r (1 - r) dh"""
    for i in range(du.size):
        du[i] = dh[i] * (c[i] * mask[i] - x[i]) * (r[i] - r[i] * r[i])


@jit
def _grad_state(dh, r, mask, dc):
    """dc += r mask dh"""
    for i in range(dc.size):
        dc[i] += dh[i] * r[i] * mask[i]


@jit
def _grad_candidate(dc, f, du):
    """du[2] = (1 - f) dc"""
    for i in range(du.size):
        du[i] = dc[i] - f[i] * dc[i]


@jit
def _grad_forget(dc, u, f, c, du):
    """du[0] = (c - u) f (1 - f) dc, with c the state before the frame"""
    for i in range(du.size):
        du[i] = dc[i] * (c[i] - u[i]) * (f[i] - f[i] * f[i])


@jit
def _grad_carry(f, du0, v0, du1, v1, dc):
    """dc = f dc + v[0] du[0] + v[1] du[1], for the frame before"""
    for i in range(dc.size):
        dc[i] = f[i] * dc[i] + v0[i] * du0[i] + v1[i] * du1[i]


@jit
def _add_product(a, b, total):
    for i in range(total.size):
        total[i] += a[i] * b[i]


@jit
def _add(a, total):
    for i in range(total.size):
        total[i] += a[i]


@jit
def backward(
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
        s = slice(start, end)
        length = lengths[row]
        dc = dc_last[row, s].copy()
        f, r = np.empty_like(dc), np.empty_like(dc)
        w, w_dh, w_dx = np.empty_like(dc), np.empty_like(dc), np.empty_like(dc)
        w_0, w_1, w_2 = np.empty_like(dc), np.empty_like(dc), np.empty_like(dc)
        v0, v1, b0, b1, m = v[0, s], v[1, s], b[0, s], b[1, s], mask[row, s]
        dv0, dv1, db0, db1 = dv[row, 0, s], dv[row, 1, s], db[row, 0, s], db[row, 1, s]
        dv[row, :, s] = 0
        db[row, :, s] = 0
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
            dh_t, dx_t = read(dh[t, row, s], w_dh), place(dx[t, row, s], w_dx)
            du0, du1 = place(du[t, row, 0, s], w_0), place(du[t, row, 1, s], w_1)
            du2 = place(du[t, row, 2, s], w_2)
            _gate(read(u[t, row, 0, s], w), v0, b0, before, f)
            _gate(read(u[t, row, 1, s], w), v1, b1, before, r)
            _grad_x(dh_t, r, dx_t)
            _grad_reset(dh_t, read(x[t, row, s], w), r, c[t, row, s], m, du1)
            _grad_state(dh_t, r, m, dc)
            _grad_candidate(dc, f, du2)
            _grad_forget(dc, read(u[t, row, 2, s], w), f, before, du0)
            _grad_carry(f, du0, v0, du1, v1, dc)
            _add_product(du0, before, dv0)
            _add_product(du1, before, dv1)
            _add(du0, db0)
            _add(du1, db1)
            write(dx[t, row, s], dx_t)
            write(du[t, row, 0, s], du0)
            write(du[t, row, 1, s], du1)
            write(du[t, row, 2, s], du2)
        _copy(dc, dc0[row, s])
        _fill_padding(dx[:, row, s], length)
        for gate in range(3):
            _fill_padding(du[:, row, gate, s], length)
