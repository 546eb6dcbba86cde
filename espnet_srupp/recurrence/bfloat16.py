"""bfloat16 for numba, which has no such type: its bits as uint16, float32 in cache.

Each function has two versions, of which numba takes the one for the type: for arrays of
numbers it does nothing and costs nothing.
"""

import numpy as np
from numba import types
from numba.extending import overload

from .compiled import jit


def read(a, buffer):
    """Numbers to read: `a` itself or, of bits, `buffer` filled from it."""
    raise NotImplementedError("compiled code only")


def place(a, buffer):
    """Where to compute what is to stand in `a`: there or, of bits, in `buffer`."""
    raise NotImplementedError("compiled code only")


def write(a, values):
    """Puts in `a` what was computed at `place`: rounded to nearest, ties to even."""
    raise NotImplementedError("compiled code only")


@jit
def _widen(bits, target):
    for i in range(target.size):
        target[i] = np.uint32(np.uint32(bits[i]) << np.uint32(16)).view(np.float32)


@jit
def _round(values, bits):
    wide = values.view(np.uint32)
    for i in range(bits.size):
        odd = np.uint32(wide[i] >> np.uint32(16)) & np.uint32(1)
        nearest = np.uint32(wide[i] + np.uint32(0x7FFF) + odd)
        # NaN has to stay one: rounded, its bits could be those of infinity or of zero
        number = np.uint32(wide[i] & np.uint32(0x7FFFFFFF)) <= np.uint32(0x7F800000)
        nearest = nearest if number else np.uint32(0x7FC00000)
        bits[i] = np.uint16(nearest >> np.uint32(16))


@overload(read)
def _read(a, buffer):
    if a.dtype != types.uint16:
        return lambda a, buffer: a

    def widened(a, buffer):
        _widen(a, buffer)
        return buffer

    return widened


@overload(place)
def _place(a, buffer):
    if a.dtype != types.uint16:
        return lambda a, buffer: a
    return lambda a, buffer: buffer


@overload(write)
def _write(a, values):
    if a.dtype != types.uint16:
        return lambda a, values: None
    return lambda a, values: _round(values, a)
