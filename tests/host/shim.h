// What kernels/recurrence.cu takes from CUDA, in C++: enough to run it on a CPU, a warp's
// lanes in turn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "warp.h"

#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

using std::exp2;
using std::fma;
using std::memcpy;

struct {
    unsigned x;
} blockIdx;

struct {
    struct {
        operator unsigned() const { return warp.now; }
    } x;
} threadIdx;

struct alignas(8) uint2 {
    unsigned x, y;
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

inline void __syncwarp() { warp.sync(); }

template <typename word>
word __ldg(const word *from) {
    return *from;
}

template <typename word>
void __stcs(word *to, word value) {
    *to = value;
}

inline int __float_as_int(float a) {
    int bits;
    memcpy(&bits, &a, sizeof bits);
    return bits;
}

inline float __int_as_float(int bits) {
    float a;
    memcpy(&a, &bits, sizeof a);
    return a;
}

inline float power_of_two(float a) { return exp2f(a); }
inline float reciprocal(float a) { return 1 / a; }

inline float half_to_float(unsigned short half) {
    const int magnitude = half & 0x7fff, sign = (half & 0x8000) << 16;
    // a multiplication moves the exponent, also of subnormal numbers
    const float a = __int_as_float(magnitude << 13) * 0x1p112f;
    const int infinite = magnitude >= 0x7c00 ? 0x7f800000 : 0;
    return __int_as_float(__float_as_int(a) | infinite | sign);
}

inline unsigned short float_to_half(float a) {
    const int sign = __float_as_int(a) >> 16 & 0x8000;
    const float magnitude = std::fabs(a);
    if (a != a) return 0x7fff;
    if (magnitude >= 65520) return sign | 0x7c00;
    // adding a power of two leaves the bits that a half has, rounded to nearest even
    int exponent;
    std::frexp(magnitude, &exponent);
    const float unit = std::ldexp(1.0f, std::max(exponent - 11, -24));
    const float rounded = std::nearbyint(magnitude / unit) * unit;
    return sign | __float_as_int(rounded * 0x1p-112f) >> 13;
}
