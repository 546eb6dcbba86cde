"""The sigmoid as a loop can vectorise it: of a, by z = -a log2(e), 1 / (1 + 2^z).

Who has a sum to take it of scales its terms by themselves: those that stay the same
once, and the others as they are added.
"""

import numpy as np
from numba import types
from numba.extending import overload

_LOG2_E = 1.4426950408889634
_LOG_2 = 0.6931471805599453
_TAYLOR = tuple(_LOG_2 / k for k in range(13, 0, -1))


def scale(a):
    """z = -a log2(e), so that 2^z = exp(-a)."""
    raise NotImplementedError("compiled code only")


def unscale(z):
    """a of z, as `scale` has them."""
    raise NotImplementedError("compiled code only")


def sigmoid(z):
    """1 / (1 + 2^z); NaN stays NaN."""
    raise NotImplementedError("compiled code only")


@overload(scale)
def _scale(a):
    if a == types.float32:
        return lambda a: a * np.float32(-_LOG2_E)
    return lambda a: a * -_LOG2_E


@overload(unscale)
def _unscale(z):
    if z == types.float32:
        return lambda z: z * np.float32(-_LOG_2)
    return lambda z: z * -_LOG_2


@overload(sigmoid)
def _sigmoid(z):
    # 2^z = 2^k 2^r with |r| <= 1/2; adding 1.5 * 2^(mantissa bits) rounds z to k and
    # leaves it in the low bits, here with the exponent's bias. 2^r is, in float32, the
    # polynomial 1 + ... of degree 5 with the least relative error, 9.1e-8, else
    # Taylor's. z is clamped from below and k from above to what 1 + 2^k can hold, as of
    # two clamps of z LLVM makes five instructions instead of two; Python's max and min
    # keep a NaN that comes first. Beyond, p grows with r
    def sigmoid32(z):
        z = max(z, np.float32(-126))
        k = z + np.float32(12583039)
        k = np.float32(min(k, np.float32(12583165)))
        r = z - (k - np.float32(12583039))
        p = np.float32(1.3264727196e-3)
        p = p * r + np.float32(9.6715126397e-3)
        p = p * r + np.float32(5.5507337433e-2)
        p = p * r + np.float32(2.4022242085e-1)
        p = p * r + np.float32(6.9314697760e-1)
        p = p * r + np.float32(1)
        power = np.int32(k.view(np.int32) << np.int32(23))
        return np.float32(1) / (np.float32(1) + p * power.view(np.float32))

    def sigmoid64(z):
        z = max(z, -1022.0)
        k = z + 6755399441056767.0
        k = np.float64(min(k, 6755399441057789.0))
        r = z - (k - 6755399441056767.0)
        p = 1.0
        for log_2_over_k in _TAYLOR:
            p = p * r * log_2_over_k + 1.0
        power = np.int64(k.view(np.int64) << np.int64(52))
        return 1.0 / (1.0 + p * power.view(np.float64))

    return sigmoid32 if z == types.float32 else sigmoid64
