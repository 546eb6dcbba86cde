// NVRTC's PTX on a CPU: each instruction that kernels/recurrence.cu becomes, as a
// function, and a memory that is as strict as a GPU's and as late as it may be.
#pragma once

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "shim.h"

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;

template <typename to, typename from>
to as(from bits) {
    static_assert(sizeof(to) == sizeof(from));
    to result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

// .ftz: numbers below the smallest normal one count as zero
inline f32 ftz(f32 a) { return std::fabs(a) < 0x1p-126f ? std::copysign(0.0f, a) : a; }

struct span {
    u64 begin, bytes;
};

// A block's shared memory, its lanes' copies on their way to it, and global memory.
struct machine {
    std::vector<span> tensors;  // what a kernel may touch
    std::vector<unsigned char> shared;

    void begin_block(u64 bytes) {
        shared.assign(bytes, 0xff);
        for (queue &lane : queues) lane = {};
    }

    void end_lane() const {
        if (!queues[warp.now].copies.empty())
            throw std::runtime_error("a copy has not been waited for");
    }

    unsigned char *in_shared(u64 address, u64 bytes) {
        check(address, bytes, address + bytes <= shared.size(), "shared");
        return &shared[address];
    }

    unsigned char *in_global(u64 address, u64 bytes) const {
        bool inside = false;
        for (const span &tensor : tensors)
            inside |= address - tensor.begin < tensor.bytes &&
                      address - tensor.begin + bytes <= tensor.bytes;
        check(address, bytes, inside, "global");
        return reinterpret_cast<unsigned char *>(address);
    }

    // A copy takes place when it is waited for; until then there is NaN.
    void copy(u32 to, u64 from, u64 bytes) {
        std::fill_n(in_shared(to, bytes), bytes, 0xff);
        in_global(from, bytes);
        auto &[copies, group] = queues[warp.now];
        copies.push_back({group, to, from, bytes});
    }

    void commit() { queues[warp.now].group++; }

    void wait(u64 last) {
        auto &[copies, group] = queues[warp.now];
        for (; !copies.empty() && copies.front().group + last < group; copies.pop_front()) {
            const auto &[_, to, from, bytes] = copies.front();
            memcpy(in_shared(to, bytes), in_global(from, bytes), bytes);
        }
    }

  private:
    struct async {
        u64 group;
        u32 to;
        u64 from, bytes;
    };
    struct queue {
        std::deque<async> copies;
        u64 group = 0;
    };
    queue queues[warp_of_lanes::LANES];  // of each lane

    static void check(u64 address, u64 bytes, bool inside, const char *where) {
        if (address % bytes || !inside)
            throw std::runtime_error(std::to_string(bytes) + " bytes of " + where +
                                     " memory, out of bounds or misaligned");
    }
} machine;

#define UNARY(name, type, result) \
    template <typename D> void name(D &d, type a) { d = result; }
#define BINARY(name, type, result) \
    template <typename D> void name(D &d, type a, type b) { d = result; }
#define TERNARY(name, type, result) \
    template <typename D> void name(D &d, type a, type b, type c) { d = result; }

BINARY(add_s32, u32, a + b)
BINARY(add_s64, u64, a + b)
BINARY(sub_s32, u32, a - b)
BINARY(sub_s64, u64, a - b)
BINARY(mul_lo_s32, u32, a * b)
BINARY(mul_lo_s64, u64, a * b)
TERNARY(mad_lo_s32, u32, a * b + c)
BINARY(mul_wide_s32, s32, s64(a) * b)
BINARY(div_u32, u32, a / b)
BINARY(div_s64, s64, a / b)
BINARY(min_s64, s64, std::min(a, b))
BINARY(max_s64, s64, std::max(a, b))
BINARY(and_b32, u32, a & b)
BINARY(and_b64, u64, a & b)
BINARY(or_b64, u64, a | b)
BINARY(or_pred, bool, a || b)
BINARY(and_pred, bool, a && b)
BINARY(shl_b32, u32, a << b)
BINARY(shl_b64, u64, a << b)
BINARY(shr_u32, u32, a >> b)
BINARY(shr_u64, u64, a >> b)
BINARY(shr_s32, s32, a >> b)
BINARY(shr_s64, s64, a >> b)
UNARY(neg_s32, u32, -a)
UNARY(neg_s64, u64, -a)
UNARY(not_b32, u32, ~a)
UNARY(not_b64, u64, ~a)
UNARY(not_pred, bool, !a)

BINARY(add_rn_f64, f64, a + b)
BINARY(sub_rn_f64, f64, a - b)
BINARY(mul_rn_f64, f64, a * b)
TERNARY(fma_rn_f64, f64, fma(a, b, c))
UNARY(rcp_rn_f64, f64, 1 / a)
UNARY(neg_f64, f64, -a)
UNARY(abs_f64, f64, std::fabs(a))
BINARY(add_rn_ftz_f32, f32, ftz(ftz(a) + ftz(b)))
BINARY(sub_rn_ftz_f32, f32, ftz(ftz(a) - ftz(b)))
BINARY(mul_rn_ftz_f32, f32, ftz(ftz(a) * ftz(b)))
TERNARY(fma_rn_ftz_f32, f32, ftz(fma(ftz(a), ftz(b), ftz(c))))
UNARY(rcp_approx_ftz_f32, f32, ftz(reciprocal(ftz(a))))
UNARY(ex2_approx_ftz_f32, f32, ftz(power_of_two(ftz(a))))
UNARY(neg_ftz_f32, f32, -ftz(a))
UNARY(abs_ftz_f32, f32, std::fabs(ftz(a)))

#define COMPARE(name, type, a_, b_, result) \
    inline void name(bool &d, type a_, type b_) { d = result; }
COMPARE(setp_lt_s32, s32, a, b, a < b)
COMPARE(setp_gt_s32, s32, a, b, a > b)
COMPARE(setp_ge_s32, s32, a, b, a >= b)
COMPARE(setp_le_s32, s32, a, b, a <= b)
COMPARE(setp_eq_s32, s32, a, b, a == b)
COMPARE(setp_ne_s32, s32, a, b, a != b)
COMPARE(setp_lt_u32, u32, a, b, a < b)
COMPARE(setp_lt_s64, s64, a, b, a < b)
COMPARE(setp_ge_s64, s64, a, b, a >= b)
COMPARE(setp_eq_s64, s64, a, b, a == b)
COMPARE(setp_ne_s64, s64, a, b, a != b)
COMPARE(setp_lt_u64, u64, a, b, a < b)
COMPARE(setp_lt_ftz_f32, f32, a, b, ftz(a) < ftz(b))
COMPARE(setp_geu_ftz_f32, f32, a, b, !(ftz(a) < ftz(b)))
COMPARE(setp_num_ftz_f32, f32, a, b, a == a && b == b)
COMPARE(setp_gtu_f64, f64, a, b, !(a <= b))

#define SELECT(name, type) \
    template <typename D> void name(D &d, type a, type b, bool c) { d = c ? a : b; }
SELECT(selp_b16, u16)
SELECT(selp_b32, u32)
SELECT(selp_b64, u64)
SELECT(selp_f32, f32)
SELECT(selp_f64, f64)

UNARY(cvt_u16_u32, u32, a)
UNARY(cvt_u32_u16, u16, a)
UNARY(cvt_u32_u64, u64, a)
UNARY(cvt_u64_u32, u32, a)
UNARY(cvt_s64_s32, s32, s64(a))
UNARY(cvt_f32_f16, u16, half_to_float(a))
UNARY(cvt_rn_f16_f32, f32, float_to_half(a))
UNARY(cvta_to_global_u64, u64, a)

inline void cvt_rn_bf16_f32(u16 &d, f32 a) {
    const u32 bits = as<u32>(a);
    d = a == a ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fff;
}

// a register as it is, where its type may be another one of the same size
#define MOVE(name, type) \
    template <typename D> void name(D &d, type a) { d = as<D>(a); }
MOVE(mov_u16, u16)
MOVE(mov_u32, u32)
MOVE(mov_u64, u64)
MOVE(mov_f32, f32)
MOVE(mov_f64, f64)
template <typename D, typename A> void mov_b32(D &d, A a) { d = as<D>(a); }
template <typename D, typename A> void mov_b64(D &d, A a) { d = as<D>(a); }
inline void mov_b32_pack(u32 &d, u16 low, u16 high) { d = low | u32(high) << 16; }
template <typename D> void mov_b64_pack(D &d, u32 low, u32 high) {
    d = as<D>(low | u64(high) << 32);
}
inline void mov_b32_unpack(u16 &low, u16 &high, u32 a) { low = a, high = a >> 16; }
template <typename A> void mov_b64_unpack(u32 &low, u32 &high, A a) {
    low = as<u64>(a), high = as<u64>(a) >> 32;
}

template <typename D> void ld_param_u64(D &d, u64 a) { d = a; }

// numbers of so many bytes each, at neighbouring addresses; registers may be wider
template <u64 BYTES, typename... D>
void load(const unsigned char *from, D &...d) {
    static_assert(((sizeof d >= BYTES) && ...));
    ((d = D(), memcpy(&d, from, BYTES), from += BYTES), ...);
}

template <u64 BYTES, typename... A>
void store(unsigned char *to, const A &...a) {
    static_assert(((sizeof a >= BYTES) && ...));
    ((memcpy(to, &a, BYTES), to += BYTES), ...);
}

template <u64 BYTES, typename... D> void ld_global(u64 address, D &...d) {
    load<BYTES>(machine.in_global(address, BYTES * sizeof...(d)), d...);
}

template <u64 BYTES, typename... D> void ld_shared(u64 address, D &...d) {
    load<BYTES>(machine.in_shared(address, BYTES * sizeof...(d)), d...);
}

template <u64 BYTES, typename... A> void st_global(u64 address, const A &...a) {
    store<BYTES>(machine.in_global(address, BYTES * sizeof...(a)), a...);
}

template <u64 BYTES, typename... A> void st_shared(u64 address, const A &...a) {
    store<BYTES>(machine.in_shared(address, BYTES * sizeof...(a)), a...);
}

inline void cp_async_ca_shared_global(u32 to, u64 from, u64 bytes) {
    machine.copy(to, from, bytes);
}
inline void cp_async_cg_shared_global(u32 to, u64 from, u64 bytes) {
    machine.copy(to, from, bytes);
}
inline void cp_async_commit_group() { machine.commit(); }
inline void cp_async_wait_group(u64 last) { machine.wait(last); }
inline void bar_warp_sync(u32) { warp.sync(); }

using kernel = void(const u64 *param, u32 ctaid_x, u32 tid_x);

// Runs a kernel's blocks one after another; returns what went wrong, or an empty text.
inline const char *run(kernel *walk, u64 shared_bytes, u32 blocks, const u64 *param) {
    static std::string fault;
    fault.clear();
    try {
        for (u32 block = 0; block < blocks; block++) {
            machine.begin_block(shared_bytes);
            warp.run([&](int lane) {
                walk(param, block, lane);
                machine.end_lane();
            });
        }
    } catch (const std::runtime_error &error) {
        fault = error.what();
    }
    return fault.c_str();
}

extern "C" void allow(const span *tensors, u64 count) {
    machine.tensors.assign(tensors, tensors + count);
}
