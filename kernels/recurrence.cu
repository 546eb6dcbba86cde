// The SRU recurrence: a lane walks VEC neighbouring channels of one row through time.
// README.md has the mathematics, the memory layout and the reasons.
// No header: pip's CuPy comes without the toolkit's. A block is a warp, whose lanes fetch
// for each other and meet at __syncwarp alone: tests/host runs this same text as C++.

using int64 = long long;  // hours of audio hold more than 2^31 numbers
constexpr int WARP = 32;

#ifdef __CUDACC__  // else tests/host/shim.h has these
__device__ inline float power_of_two(float a) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(a));
    return a;
}

__device__ inline float reciprocal(float a) {
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(a));
    return a;
}

__device__ inline float half_to_float(unsigned short half) {
    float a;
    asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(half));
    return a;
}

__device__ inline unsigned short float_to_half(float a) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(a));
    return half;
}
#endif

__device__ inline unsigned short float_to_bfloat(float a) {
    unsigned short bfloat;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bfloat) : "f"(a));
#else
    // to the nearest, ties to even; NaN must not be carried into infinity
    const unsigned bits = __float_as_int(a);
    bfloat = a == a ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fff;
#endif
    return bfloat;
}

struct float16 { unsigned short bits; };
struct bfloat16 { unsigned short bits; };
template <typename io> constexpr bool is_bfloat16 = false;
template <> constexpr bool is_bfloat16<bfloat16> = true;

__device__ inline float widen(float a) { return a; }
__device__ inline double widen(double a) { return a; }
__device__ inline float widen(float16 a) { return half_to_float(a.bits); }
__device__ inline float widen(bfloat16 a) { return __int_as_float(a.bits << 16); }
__device__ inline void narrow(float a, float &to) { to = a; }
__device__ inline void narrow(double a, double &to) { to = a; }
__device__ inline void narrow(float a, float16 &to) { to.bits = float_to_half(a); }
__device__ inline void narrow(float a, bfloat16 &to) { to.bits = float_to_bfloat(a); }
__device__ inline double power_of_two(double a) { return exp2(a); }
__device__ inline double reciprocal(double a) { return 1 / a; }

template <typename number, int VEC>
struct pack {
    number at[VEC];
};

// a pack as one instruction moves it; left to itself, the compiler moves some number by
// number
template <int BYTES> struct unit;
template <> struct unit<2> { using type = unsigned short; };
template <> struct unit<4> { using type = unsigned; };
template <> struct unit<8> { using type = uint2; };
template <> struct unit<16> { using type = uint4; };
template <typename number, int VEC>
using word = typename unit<sizeof(number) * VEC>::type;

template <typename number, int VEC>
__device__ inline pack<number, VEC> unpack(const word<number, VEC> &bits) {
    pack<number, VEC> numbers;
    memcpy(&numbers, &bits, sizeof bits);
    return numbers;
}

// the numbers of a word as those of the state
template <typename state, typename io, int VEC>
__device__ inline pack<state, VEC> widened(const word<io, VEC> &bits) {
    pack<state, VEC> wide;
    if constexpr (is_bfloat16<io> && VEC > 1) {
        unsigned pairs[VEC / 2];  // two instructions for each, left to the compiler three
        memcpy(pairs, &bits, sizeof bits);
        for (int k = 0; k < VEC; k += 2) {
            wide.at[k] = __int_as_float(pairs[k / 2] << 16);
            wide.at[k + 1] = __int_as_float(pairs[k / 2] & 0xffff0000);
        }
    } else {
        const auto numbers = unpack<io, VEC>(bits);
        for (int k = 0; k < VEC; k++) wide.at[k] = widen(numbers.at[k]);
    }
    return wide;
}

template <typename number, int VEC>
__device__ inline word<number, VEC> bits_of(const pack<number, VEC> &numbers) {
    word<number, VEC> bits;
    memcpy(&bits, &numbers, sizeof bits);
    return bits;
}

template <int VEC, typename number>
__device__ inline pack<number, VEC> load(const number *from) {
    return unpack<number, VEC>(__ldg(reinterpret_cast<const word<number, VEC> *>(from)));
}

// the words of a lane, whose first channel is `own`, in rows of shared memory
template <typename number, int VEC>
__device__ inline const word<number, VEC> *at_lane(const char *rows, int own) {
    return reinterpret_cast<const word<number, VEC> *>(rows) + own / VEC;
}

template <int VEC, typename number>
__device__ inline pack<number, VEC> load_or(number missing, const number *from, int64 at) {
    pack<number, VEC> numbers;
    for (int k = 0; k < VEC; k++) numbers.at[k] = missing;
    return from ? load<VEC>(from + at) : numbers;
}

// first to leave the caches: what is read again is less than what passes through
template <typename number, int VEC>
__device__ inline void store(number *to, const pack<number, VEC> &numbers) {
    __stcs(reinterpret_cast<word<number, VEC> *>(to), bits_of(numbers));
}

// begins to copy BYTES into shared memory; older cards and 2 bytes are copied at once
template <int BYTES>
__device__ inline void fetch(char *to, const char *from) {
#if __CUDA_ARCH__ >= 800
    if constexpr (BYTES >= 4) {
        const unsigned address = __cvta_generic_to_shared(to);
        // .cg, past the first-level cache, knows 16 bytes alone
        if constexpr (BYTES == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address),
                         "l"(from)
                         : "memory");
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address),
                         "l"(from), "n"(BYTES)
                         : "memory");
        return;
    }
#endif
    using word = typename unit<BYTES>::type;
    *reinterpret_cast<word *>(to) = __ldg(reinterpret_cast<const word *>(from));
}

// ends a group of copies
__device__ inline void commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// waits for all of this lane's groups but the last ones
template <int LAST>
__device__ inline void wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LAST) : "memory");
#endif
}

// visit(i) for each i below count and GROUP
template <int GROUP, typename Visit>
__device__ __forceinline__ void each(int count, Visit visit) {
#pragma unroll
    for (int i = 0; i < GROUP; i++)
        if (i < count) visit(i);
}

// The next two groups of frames are fetched, read and walked; MORE: all of them are there,
// and at least one after them.
template <bool MORE, int AHEAD, int GROUP, typename Group, typename Fetch, typename Read,
          typename Walk>
__device__ __forceinline__ void two_groups(int &n, int &slot, Group (&groups)[2],
                                           Fetch &fetch, Read &read, Walk &walk) {
#pragma unroll
    for (int half = 0; half < 2; half++, n -= GROUP) {
        wait<AHEAD / GROUP - 2>();
        // the next group has come for every lane, and all have read the one before it,
        // whose slots are free now
        __syncwarp();
        fetch(slot, MORE ? GROUP + 1 : n - AHEAD);
        commit();
        slot = slot + GROUP == AHEAD ? 0 : slot + GROUP;
        groups[1 - half] = read(slot);
        walk(groups[half], MORE ? GROUP + 1 : n);
    }
}

// For n frames in groups fetch(slot, left), and about AHEAD frames later
// walk(read(slot), left), `left` frames being there from the group's first on: one group is
// read while the one before is walked.
template <typename Group, int AHEAD, int GROUP, typename Fetch, typename Read,
          typename Walk>
__device__ __forceinline__ void pipeline(int n, Fetch fetch, Read read, Walk walk) {
    static_assert(AHEAD % GROUP == 0 && AHEAD >= 2 * GROUP, "");
#pragma unroll 1
    for (int slot = 0; slot < AHEAD; slot += GROUP) {
        fetch(slot, n - slot);
        commit();
    }
    wait<AHEAD / GROUP - 1>();
    __syncwarp();
    Group groups[2] = {read(0)};
    int slot = 0;
    // without branches the compiler has one group fetched, one read and one walked at once
#pragma unroll 1
    while (n > AHEAD + 2 * GROUP)
        two_groups<true, AHEAD, GROUP>(n, slot, groups, fetch, read, walk);
#pragma unroll 1
    while (n > 0) two_groups<false, AHEAD, GROUP>(n, slot, groups, fetch, read, walk);
}

// sigmoid(u + v c + b) for each channel of a pack
template <typename state, int VEC>
struct gate {
    static constexpr state SCALE = -1.4426950408889634;  // -log2(e), in v and b too
    pack<state, VEC> v, b;

    __device__ gate(const state *v_, const state *b_)
        : v(load<VEC>(v_)), b(load<VEC>(b_)) {
        for (int k = 0; k < VEC; k++) {
            v.at[k] *= SCALE;
            b.at[k] *= SCALE;
        }
    }

    __device__ state operator()(int k, state u, state c) const {
        return reciprocal(1 + power_of_two(fma(v.at[k], c, fma(SCALE, u, b.at[k]))));
    }
};

// The channels [begin, end) of a direction that are left for a warp, those of its lane, and
// their way through time: the row that has their first frame in a (T * B, ...) tensor, and
// how far it is to the next.
template <int VEC>
struct columns {
    int64 row, begin, end, first, step;
    int frames, own;  // own: the lane's first channel, from `begin` on

    __device__ columns(int64 T, int64 B, int64 D, int64 width, const int64 *lengths,
                       bool reverse) {
        constexpr int MOST = WARP * VEC;
        const int64 warps = (width + MOST - 1) / MOST;  // of a direction
        const int64 all = D / width * warps, warp = blockIdx.x % all;
        const bool second = warp >= warps;
        row = blockIdx.x / all;
        end = second ? D : width;
        begin = end - width + (warp - (second ? warps : 0)) * MOST;
        // lanes beyond the last channels do as the last ones do, the same to every bit
        const int64 rest = end - begin - VEC, wanted = threadIdx.x * VEC;
        own = wanted < rest ? wanted : rest;
        const int64 length = lengths ? lengths[row] : T;
        frames = length < 0 ? 0 : length > T ? T : length;
        const bool back = second != reverse;
        first = row + (back && frames ? (frames - 1) * B : 0);
        step = back ? -B : B;
    }
};

// Bytes on their way to shared memory, where lanes take UNIT of them each, whoever reads
// them.
template <int BYTES, int UNIT>
struct courier {
    static constexpr int COPIES = (BYTES + WARP * UNIT - 1) / (WARP * UNIT);
    const char *from[COPIES];
    int64 step[COPIES];

    __device__ static int place(int i) { return (threadIdx.x + i * WARP) * UNIT; }

    // the i-th copy begins in a row of a tensor, `offset` bytes after channel `begin`, and
    // next time `rows` further
    template <typename number, int VEC>
    __device__ void send(int i, const number *tensor, int64 row, int64 rows, int64 width,
                         int offset, const columns<VEC> &on) {
        const int64 wanted = on.begin * sizeof(number) + offset;
        const int64 most = on.end * sizeof(number) - UNIT;  // nobody reads what is beyond
        const char *begin = reinterpret_cast<const char *>(tensor + row * width);
        from[i] = begin + (wanted < most ? wanted : most);
        step[i] = rows * width * sizeof(number);
    }

    __device__ void operator()(char *to) {
#pragma unroll
        for (int i = 0; i < COPIES; i++) {
            if ((i + 1) * WARP * UNIT <= BYTES || place(i) < BYTES)
                fetch<UNIT>(to + place(i), from[i]);
            from[i] += step[i];
        }
    }
};

// Frames: ROWS rows of io, u's three and those of x and dh.
template <typename io, int VEC, int ROWS, int UNIT>
struct frame_courier : courier<ROWS * WARP * VEC * sizeof(io), UNIT> {
    static constexpr int ROW = WARP * VEC * sizeof(io), BYTES = ROWS * ROW;

    __device__ frame_courier(const columns<VEC> &on, int64 D, const io *u, const io *x,
                             const io *dh) {
#pragma unroll
        for (int i = 0; i < this->COPIES; i++) {
            const int at = this->place(i), row = at / ROW;
            if (row < 3)
                this->send(i, u + row * D, on.first, on.step, 3 * D, at % ROW, on);
            else  // or beyond BYTES
                this->send(i, row == 3 ? x : dh, on.first, on.step, D, at % ROW, on);
        }
    }
};

// The states that a forward pass saved, one for each group of the backward pass but its
// last.
template <typename state, int VEC, int UNIT>
struct state_courier : courier<WARP * VEC * sizeof(state), UNIT> {
    static constexpr int BYTES = WARP * VEC * sizeof(state);

    __device__ state_courier(const columns<VEC> &on, int64 B, int64 D, const state *c) {
#pragma unroll
        for (int i = 0; i < this->COPIES; i++)
            this->send(i, c, on.row, B, D, this->place(i), on);
    }
};

template <typename io, typename state, int VEC, int AHEAD, int UNIT, int EVERY>
__global__ void __launch_bounds__(WARP)
forward(int64 T, int64 B, int64 D, int64 width, const io *__restrict__ u,
        const io *__restrict__ x, const state *v, const state *b, const state *c0,
        const int64 *lengths, const state *mask_c, io *__restrict__ h, state *c_last,
        state *__restrict__ c) {
    const columns<VEC> on(T, B, D, width, lengths, false);
    const int64 channel = on.begin + on.own, at = on.row * D + channel;
    const gate<state, VEC> forget(v + channel, b + channel);
    const gate<state, VEC> reset(v + D + channel, b + D + channel);
    const pack<state, VEC> mask = load_or<VEC>(state(1), mask_c, at);
    pack<state, VEC> now = load_or<VEC>(state(0), c0, at);

    constexpr int GROUP = 4 / VEC;
    using parcel = frame_courier<io, VEC, 4, UNIT>;
    __shared__ __align__(16) char ring[AHEAD][parcel::BYTES];
    parcel fetch_next(on, D, u, x, nullptr);
    struct Frame {
        word<io, VEC> u0, u1, u2, x;
    };
    struct Group {
        Frame frames[GROUP];
    };
    const auto fetch_group = [&](int slot, int left) {
        each<GROUP>(left, [&](int i) { fetch_next(ring[slot + i]); });
    };
    const auto read = [&](int slot) {
        Group group;
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            const auto in = at_lane<io, VEC>(ring[slot + i], on.own);
            group.frames[i] = {in[0], in[WARP], in[2 * WARP], in[3 * WARP]};
        }
        return group;
    };
    io *to_h = h + on.first * D + channel;
    const int64 step = on.step * D;
    int to_come = on.frames;
    if (EVERY) c += (to_come + EVERY - 1) / EVERY * B * D + at;
    const auto walk = [&](const Frame &frame) {
        const auto u0 = widened<state, io, VEC>(frame.u0);
        const auto u1 = widened<state, io, VEC>(frame.u1);
        const auto u2 = widened<state, io, VEC>(frame.u2);
        const auto highway = widened<state, io, VEC>(frame.x);
        pack<io, VEC> out;
        for (int k = 0; k < VEC; k++) {
            const state f = forget(k, u0.at[k], now.at[k]);
            const state r = reset(k, u1.at[k], now.at[k]);
            const state candidate = u2.at[k], x = highway.at[k];
            now.at[k] = fma(f, now.at[k] - candidate, candidate);
            narrow(fma(r, fma(now.at[k], mask.at[k], -x), x), out.at[k]);
        }
        store(to_h, out);
        to_h += step;
        if (EVERY && --to_come % EVERY == 0) store(c -= B * D, now);
    };
    pipeline<Group, AHEAD, GROUP>(on.frames, fetch_group, read, [&](auto &group, int left) {
        each<GROUP>(left, [&](int i) { walk(group.frames[i]); });
    });

    store(c_last + at, now);
    for (int64 t = on.frames; t < T; t++) store(h + t * B * D + at, pack<io, VEC>{});
}

// In groups of EVERY frames: from the state saved before it each is walked as in the
// forward pass, then back. dv and db are (B, 2, D), each row's sums over time.
template <typename io, typename state, int VEC, int AHEAD, int UNIT, int EVERY>
__global__ void __launch_bounds__(WARP)
backward(int64 T, int64 B, int64 D, int64 width, const io *__restrict__ dh,
         const state *dc_last, const io *__restrict__ u, const io *__restrict__ x,
         const state *v, const state *b, const state *c0, const int64 *lengths,
         const state *mask_c, const state *__restrict__ c, io *__restrict__ du,
         io *__restrict__ dx, state *dv, state *db, state *dc0) {
    const columns<VEC> on(T, B, D, width, lengths, true);
    const int64 channel = on.begin + on.own;
    const int64 at = on.row * D + channel, sums = at + on.row * D;
    const pack<state, VEC> v0 = load<VEC>(v + channel);
    const pack<state, VEC> v1 = load<VEC>(v + D + channel);
    const gate<state, VEC> forget(v + channel, b + channel);
    const gate<state, VEC> reset(v + D + channel, b + D + channel);
    const pack<state, VEC> mask = load_or<VEC>(state(1), mask_c, at);
    const pack<state, VEC> start = load_or<VEC>(state(0), c0, at);
    pack<state, VEC> dc = load_or<VEC>(state(0), dc_last, at);
    pack<state, VEC> dv0{}, dv1{}, db0{}, db1{};

    using parcel = frame_courier<io, VEC, 5, UNIT>;
    using saved = state_courier<state, VEC, UNIT>;
    __shared__ __align__(16) char ring[AHEAD][parcel::BYTES];
    __shared__ __align__(16) char states[AHEAD / EVERY][saved::BYTES];
    parcel fetch_next(on, D, u, x, dh);
    saved fetch_state(on, B, D, c + B * D);
    struct Frame {
        word<io, VEC> u0, u1, u2, x, dh;
    };
    struct Group {
        Frame frames[EVERY];
        word<state, VEC> before;
    };
    const auto fetch_group = [&](int slot, int left) {
        each<EVERY>(left, [&](int i) { fetch_next(ring[slot + i]); });
        if (left > EVERY) fetch_state(states[slot / EVERY]);
    };
    const auto read = [&](int slot) {
        Group group;
#pragma unroll
        for (int i = 0; i < EVERY; i++) {
            const auto in = at_lane<io, VEC>(ring[slot + i], on.own);
            group.frames[i] = {in[0], in[WARP], in[2 * WARP], in[3 * WARP], in[4 * WARP]};
        }
        group.before = *at_lane<state, VEC>(states[slot / EVERY], on.own);
        return group;
    };
    const int64 first = on.first * D, step = on.step * D;
    io *to_du = du + 3 * first + channel, *to_dx = dx + first + channel;
    const auto walk = [&](const Group &group, int left) {
        // the states before each frame and the forget gates, in the order of time
        pack<state, VEC> c = left > EVERY ? unpack<state, VEC>(group.before) : start;
        pack<state, VEC> before[EVERY], forgets[EVERY];
#pragma unroll
        for (int i = EVERY - 1; i >= 0; i--) {
            if (i >= left) continue;
            const auto u0 = widened<state, io, VEC>(group.frames[i].u0);
            const auto u2 = widened<state, io, VEC>(group.frames[i].u2);
            before[i] = c;
            for (int k = 0; k < VEC; k++) {
                const state f = forgets[i].at[k] = forget(k, u0.at[k], c.at[k]);
                c.at[k] = fma(f, c.at[k] - u2.at[k], u2.at[k]);
            }
        }
        each<EVERY>(left, [&](int i) {
            const Frame &frame = group.frames[i];
            const auto u1 = widened<state, io, VEC>(frame.u1);
            const auto u2 = widened<state, io, VEC>(frame.u2);
            const auto highway = widened<state, io, VEC>(frame.x);
            const auto grad = widened<state, io, VEC>(frame.dh);
            pack<io, VEC> du0, du1, du2, dhighway;
            for (int k = 0; k < VEC; k++) {
                const state earlier = before[i].at[k], dh = grad.at[k];
                const state candidate = u2.at[k], x = highway.at[k];
                const state f = forgets[i].at[k];
                const state r = reset(k, u1.at[k], earlier);
                const state dr = dh * fma(c.at[k], mask.at[k], -x) * fma(-r, r, r);
                const state dstate = fma(dh * r, mask.at[k], dc.at[k]);
                const state df = dstate * ((earlier - candidate) * fma(-f, f, f));
                narrow(df, du0.at[k]);
                narrow(dr, du1.at[k]);
                narrow(fma(-f, dstate, dstate), du2.at[k]);
                narrow(fma(-r, dh, dh), dhighway.at[k]);
                dv0.at[k] = fma(df, earlier, dv0.at[k]);
                dv1.at[k] = fma(dr, earlier, dv1.at[k]);
                db0.at[k] += df;
                db1.at[k] += dr;
                dc.at[k] = fma(f, dstate, fma(v0.at[k], df, v1.at[k] * dr));
            }
            store(to_du, du0);
            store(to_du + D, du1);
            store(to_du + 2 * D, du2);
            store(to_dx, dhighway);
            to_du += 3 * step, to_dx += step;
            c = before[i];
        });
    };
    pipeline<Group, AHEAD, EVERY>(on.frames, fetch_group, read, walk);

    store(dc0 + at, dc);
    store(dv + sums, dv0);
    store(dv + sums + D, dv1);
    store(db + sums, db0);
    store(db + sums + D, db1);
    for (int64 t = on.frames; t < T; t++) {
        io *const padded = du + (t * B + on.row) * 3 * D + channel;
        for (int g = 0; g < 3; g++) store(padded + g * D, pack<io, VEC>{});
        store(dx + t * B * D + at, pack<io, VEC>{});
    }
}
