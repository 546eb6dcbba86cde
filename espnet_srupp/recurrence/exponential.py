"""exp(a) as a loop can vectorise it."""

import numpy as np
from numba import types
from numba.extending import overload

_TAYLOR = tuple(1 / k for k in range(13, 0, -1))


def exp(a):
    """exp(a), clamped to what a sigmoid can tell from 0 and 1; NaN stays NaN."""
    raise NotImplementedError("compiled code only")


@overload(exp, inline="always")
def _of_type(a):
    # comparisons, not min and max, which would turn NaN into a number;
    # 2^k exp(r) with |r| <= log(2) / 2; adding 1.5 * 2^(mantissa bits) rounds k and
    # leaves it in the low bits; Cephes' polynomial (float32), Taylor's (float64)
    def exp32(a):
        a = np.float32(-87) if a < np.float32(-87) else a  # noqa: FURB136
        a = np.float32(88) if a > np.float32(88) else a  # noqa: FURB136
        z = np.float32(a * np.float32(1.4426950408889634) + np.float32(12582912))
        k = z - np.float32(12582912)
        r = a - k * np.float32(0.693359375) - k * np.float32(-2.12194440e-4)
        p = np.float32(1.9875691500e-4)
        p = p * r + np.float32(1.3981999507e-3)
        p = p * r + np.float32(8.3334519073e-3)
        p = p * r + np.float32(4.1665795894e-2)
        p = p * r + np.float32(1.6666665459e-1)
        p = p * r + np.float32(5.0000001201e-1)
        p = p * r * r + r + np.float32(1)
        power = np.int32((z.view(np.int32) + np.int32(127)) << np.int32(23))
        return p * power.view(np.float32)

    def exp64(a):
        a = -708.0 if a < -708.0 else a  # noqa: FURB136
        a = 709.0 if a > 709.0 else a  # noqa: FURB136
        z = np.float64(a * 1.4426950408889634 + 6755399441055744.0)
        k = z - 6755399441055744.0
        r = a - k * 6.93145751953125e-1 - k * 1.42860682030941723212e-6
        p = 1.0
        for inverse in _TAYLOR:
            p = p * r * inverse + 1.0
        power = np.int64((z.view(np.int64) + np.int64(1023)) << np.int64(52))
        return p * power.view(np.float64)

    return exp32 if a == types.float32 else exp64
