"""The sigmoid as a loop can vectorise it."""

import numpy as np
from numba import types
from numba.extending import overload

_LOG2_E = 1.4426950408889634
_LOG_2 = 0.6931471805599453
_TAYLOR = tuple(_LOG_2 / k for k in range(13, 0, -1))


def sigmoid(a):
    """1 / (1 + exp(-a)); NaN stays NaN."""
    raise NotImplementedError("compiled code only")


@overload(sigmoid)
def _of_type(a):
    # 2^z = 2^k 2^r with |r| <= 1/2; adding 1.5 * 2^(mantissa bits) rounds z to k and
    # leaves it in the low bits; Cephes' polynomial (float32), Taylor's (float64).
    # z is clamped from below and k from above to what 1 + 2^k can hold, as of two
    # clamps of z LLVM makes five instructions instead of two; Python's max and min keep
    # a NaN that comes first. Beyond, p grows with r
    def sigmoid32(a):
        z = a * np.float32(-_LOG2_E)
        z = max(z, np.float32(-126))
        k = z + np.float32(12582912)
        k = np.float32(min(k, np.float32(12583038)))
        r = z - (k - np.float32(12582912))
        p = np.float32(1.535336188319500e-4)
        p = p * r + np.float32(1.339887440266574e-3)
        p = p * r + np.float32(9.618437357674640e-3)
        p = p * r + np.float32(5.550332471162809e-2)
        p = p * r + np.float32(2.402264791363012e-1)
        p = p * r + np.float32(6.931472028550421e-1)
        p = p * r + np.float32(1)
        power = np.int32((k.view(np.int32) + np.int32(127)) << np.int32(23))
        return np.float32(1) / (np.float32(1) + p * power.view(np.float32))

    def sigmoid64(a):
        z = a * -_LOG2_E
        z = max(z, -1022.0)
        k = z + 6755399441055744.0
        k = np.float64(min(k, 6755399441056766.0))
        r = z - (k - 6755399441055744.0)
        p = 1.0
        for log_2_over_k in _TAYLOR:
            p = p * r * log_2_over_k + 1.0
        power = np.int64((k.view(np.int64) + np.int64(1023)) << np.int64(52))
        return 1.0 / (1.0 + p * power.view(np.float64))

    return sigmoid32 if a == types.float32 else sigmoid64
