"""bfloat16 for numba, which has no such type: its bits as uint16, float32 in between.

Each function has two versions, of which numba takes the one for the type: numbers are
read and written as they are.
"""

import numpy as np
from numba import types
from numba.extending import overload


def widen(a):
    """The number `a`, or that of bfloat16's bits."""
    raise NotImplementedError("compiled code only")


def put(target, i, a):
    """target[i] = a, which bits get rounded to nearest, ties to even."""
    raise NotImplementedError("compiled code only")


@overload(widen)
def _widen(a):
    if a != types.uint16:
        return lambda a: a
    return lambda a: np.uint32(np.uint32(a) << np.uint32(16)).view(np.float32)


@overload(put)
def _put(target, i, a):
    def number(target, i, a):
        target[i] = a

    def bits(target, i, a):
        wide = np.float32(a).view(np.uint32)
        odd = np.uint32(wide >> np.uint32(16)) & np.uint32(1)
        nearest = np.uint32(wide + np.uint32(0x7FFF) + odd)
        # NaN has to stay one: rounded, its bits could be those of infinity or of zero
        nearest = nearest if a == a else np.uint32(0x7FC00000)
        target[i] = np.uint16(nearest >> np.uint32(16))

    return bits if target.dtype == types.uint16 else number
