// For tests only. With this header in front of it, g++ compiles a CUDA source file as it stands, and its kernels run on
// the CPU over host memory: one block after another, each CUDA thread in turn.
//
// A thread that meets a barrier is suspended (it lives on a fiber of its own) until every thread the barrier waits for
// has arrived; anything else is reported as an error, not run. Shared memory is filled with 0xA5 before each block.
// The order of threads and blocks is the caller's: 0 natural, -1 reversed, any other number a shuffle.
// What a launch does is in scheduler.cpp, which is compiled once; here is what a kernel sees, precompiled.
// Not a model of the memory system: threads never run at the same time, so atomics are plain and races show only as a
// dependence on that order. No textures, no cooperative groups, no __activemask.
#pragma once
#include <math.h>  // libstdc++'s: brings the float overloads of sqrt, fabs, isfinite ... into the global namespace
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

static_assert(std::is_same_v<decltype(sqrt(1.f)), float> && std::is_same_v<decltype(fabs(1.f)), float> &&
              std::is_same_v<decltype(abs(1.f)), float> && std::is_same_v<decltype(pow(1.f, 1.f)), float> &&
              std::is_same_v<decltype(fmax(1.f, 1.f)), float> && std::is_same_v<decltype(sqrt(1.)), double>,
              "single precision must stay single, as in CUDA");

#define GPUBIO_ON_CPU 1
#define __global__
#define __device__
#define __host__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __constant__ static
#define __shared__ static __attribute__((section("cuda_shared")))
#define DYN_SHARED(T, name) T* name = reinterpret_cast<T*>(cuda_on_cpu::dynamic_shared())

// ---------------------------------------------------------------------------------------------------- vector types
#define CUDA_ON_CPU_VECTORS(T, name, align2, align4)                                           \
    struct name##1 { T x; };                                                                   \
    struct alignas(align2) name##2 { T x, y; };                                                \
    struct name##3 { T x, y, z; };                                                             \
    struct alignas(align4) name##4 { T x, y, z, w; };                                          \
    inline name##1 make_##name##1(T x) { return {x}; }                                         \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                 \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                         \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUDA_ON_CPU_VECTORS(float, float, 8, 16)
CUDA_ON_CPU_VECTORS(double, double, 16, 16)
CUDA_ON_CPU_VECTORS(int, int, 8, 16)
CUDA_ON_CPU_VECTORS(unsigned int, uint, 8, 16)
CUDA_ON_CPU_VECTORS(short, short, 4, 8)
CUDA_ON_CPU_VECTORS(unsigned short, ushort, 4, 8)
CUDA_ON_CPU_VECTORS(signed char, char, 2, 4)
CUDA_ON_CPU_VECTORS(unsigned char, uchar, 2, 4)
CUDA_ON_CPU_VECTORS(long long, longlong, 16, 16)
CUDA_ON_CPU_VECTORS(unsigned long long, ulonglong, 16, 16)
#undef CUDA_ON_CPU_VECTORS

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1) : x(a), y(b), z(c) {}
};
#pragma GCC visibility push(hidden)  // each library has a scheduler of its own
extern dim3 gridDim, blockDim;
extern uint3 blockIdx, threadIdx;
inline constexpr int warpSize = 32;

// ----------------------------------------------------------------------------------------- what the scheduler offers
namespace cuda_on_cpu {

struct Body { void (*call)(const void* kernel, void** args); const void* kernel; void** args; };
struct Parameter { char kind; unsigned char pointer; size_t size; };  // see `signature`

unsigned char* dynamic_shared();
const char* run_grid(Body body, const unsigned int* grid, const unsigned int* block, size_t shared_bytes, int seed);
const char* describe(const Parameter* parameters, size_t count);
[[noreturn]] void stop(const char* what);
unsigned int lane();
uint64_t exchange_bits(unsigned int mask, uint64_t bits, unsigned int from);
unsigned int ballot(unsigned int mask, bool vote);
void wait_for_warp(unsigned int mask);
}  // namespace cuda_on_cpu
void __syncthreads();
int __syncthreads_count(int yes);
#pragma GCC visibility pop

namespace cuda_on_cpu {

// --------------------------------------------------------------------------------- from untyped arguments to a kernel
template <class T> T read(const void* from) {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}

template <class... A, size_t... I> void apply(void (*kernel)(A...), void** args, std::index_sequence<I...>) {
    kernel(read<std::remove_cv_t<A>>(args[I])...);
}

template <class... A> void call(const void* kernel, void** args) {
    apply(*static_cast<void (*const*)(A...)>(kernel), args, std::index_sequence_for<A...>{});
}

template <class... A>
const char* launch(void (*kernel)(A...), const unsigned int* grid, const unsigned int* block, size_t shared_bytes,
                   int seed, void** args) {
    return run_grid({call<A...>, &kernel, args}, grid, block, shared_bytes, seed);
}

// A word describes a parameter: a letter and a size in bytes (f4, i4, u8, s16 for a struct), with "p" in front for a
// pointer and "q" for a pointer to const; "p?0" for void*.
template <class T> constexpr Parameter parameter() {
    if constexpr (std::is_pointer_v<T>) {
        using Target = std::remove_pointer_t<T>;
        const Parameter target = parameter<std::remove_cv_t<Target>>();
        return {target.kind, std::is_const_v<Target> ? 'q' : 'p', target.size};
    } else if constexpr (std::is_void_v<T>) {
        return {'?', 0, 0};
    } else {
        const char kind = std::is_same_v<T, bool>       ? 'b'
                          : std::is_floating_point_v<T> ? 'f'
                          : std::is_unsigned_v<T>       ? 'u'
                          : std::is_integral_v<T>       ? 'i'
                                                        : 's';
        return {kind, 0, sizeof(T)};
    }
}

template <class... A> const char* signature(void (*)(A...)) {
    static constexpr Parameter parameters[] = {parameter<std::remove_cv_t<A>>()..., {0, 0, 0}};
    return describe(parameters, sizeof...(A));
}

// ------------------------------------------------------------------------------------------------------------ warps
template <class T> T exchange(unsigned int mask, T value, unsigned int from) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = exchange_bits(mask, bits, from);
    return read<T>(&bits);
}

}  // namespace cuda_on_cpu

inline void __syncwarp(unsigned int mask = ~0u) { cuda_on_cpu::wait_for_warp(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned int) {}
inline void __trap() { cuda_on_cpu::stop("__trap"); }

template <class T> T __shfl_sync(unsigned int mask, T value, int source, int width = 32) {
    const unsigned int me = cuda_on_cpu::lane(), w = unsigned(width);
    return cuda_on_cpu::exchange(mask, value, (me & ~(w - 1)) + (unsigned(source) & (w - 1)));
}
template <class T> T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
    const unsigned int me = cuda_on_cpu::lane(), w = unsigned(width);
    return cuda_on_cpu::exchange(mask, value, (me & (w - 1)) >= delta ? me - delta : me);
}
template <class T> T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
    const unsigned int me = cuda_on_cpu::lane(), w = unsigned(width);
    return cuda_on_cpu::exchange(mask, value, (me & (w - 1)) + delta < w ? me + delta : me);
}
template <class T> T __shfl_xor_sync(unsigned int mask, T value, int lanes, int width = 32) {
    const unsigned int me = cuda_on_cpu::lane(), w = unsigned(width), from = me ^ unsigned(lanes);
    return cuda_on_cpu::exchange(mask, value, from < (me & ~(w - 1)) + w ? from : me);
}
inline unsigned int __ballot_sync(unsigned int mask, int vote) { return cuda_on_cpu::ballot(mask, vote != 0); }
inline int __any_sync(unsigned int mask, int vote) { return cuda_on_cpu::ballot(mask, vote != 0) != 0; }
inline int __all_sync(unsigned int mask, int vote) { return cuda_on_cpu::ballot(mask, vote == 0) == 0; }

// ---------------------------------------------------------------------------------------------------------- atomics
// As in CUDA, the value is of the type of the cell: no template would find the overload for atomicAdd(&float, 1).
#define CUDA_ON_CPU_ATOMIC(name, T, result)       \
    inline T name(T* cell, T value) {             \
        const T old = *cell;                      \
        *cell = (result);                         \
        return old;                               \
    }
#define CUDA_ON_CPU_ATOMICS(T)                                     \
    CUDA_ON_CPU_ATOMIC(atomicExch, T, value)                       \
    CUDA_ON_CPU_ATOMIC(atomicMin, T, value < old ? value : old)    \
    CUDA_ON_CPU_ATOMIC(atomicMax, T, value > old ? value : old)    \
    CUDA_ON_CPU_ATOMIC(atomicAnd, T, old & value)                  \
    CUDA_ON_CPU_ATOMIC(atomicOr, T, old | value)                   \
    CUDA_ON_CPU_ATOMIC(atomicXor, T, old ^ value)                  \
    inline T atomicCAS(T* cell, T compare, T value) {              \
        const T old = *cell;                                       \
        if (old == compare) *cell = value;                         \
        return old;                                                \
    }
CUDA_ON_CPU_ATOMICS(int)
CUDA_ON_CPU_ATOMICS(unsigned int)
CUDA_ON_CPU_ATOMICS(unsigned long long)
CUDA_ON_CPU_ATOMIC(atomicAdd, int, old + value)
CUDA_ON_CPU_ATOMIC(atomicAdd, unsigned int, old + value)
CUDA_ON_CPU_ATOMIC(atomicAdd, unsigned long long, old + value)
CUDA_ON_CPU_ATOMIC(atomicAdd, float, old + value)
CUDA_ON_CPU_ATOMIC(atomicAdd, double, old + value)
CUDA_ON_CPU_ATOMIC(atomicSub, int, old - value)
CUDA_ON_CPU_ATOMIC(atomicSub, unsigned int, old - value)
CUDA_ON_CPU_ATOMIC(atomicExch, float, value)
CUDA_ON_CPU_ATOMIC(atomicInc, unsigned int, old >= value ? 0u : old + 1u)
CUDA_ON_CPU_ATOMIC(atomicDec, unsigned int, old == 0u || old > value ? value : old - 1u)
#undef CUDA_ON_CPU_ATOMICS
#undef CUDA_ON_CPU_ATOMIC

// ------------------------------------------------------------------------------------------------------- arithmetic
// min and max of two floating-point numbers are fmin and fmax in CUDA: a NaN loses.
template <class A, class B> constexpr auto min(A a, B b) -> std::common_type_t<A, B> {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return fmin(T(a), T(b));
    else return T(a) < T(b) ? T(a) : T(b);
}
template <class A, class B> constexpr auto max(A a, B b) -> std::common_type_t<A, B> {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return fmax(T(a), T(b));
    else return T(a) > T(b) ? T(a) : T(b);
}

template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> void __stcs(T* p, T value) { *p = value; }

// Explicitly rounded operations are never fused, even where the compiler is told to fuse the rest.
#define CUDA_ON_CPU_ROUNDED(T, name, expression)  \
    inline T name(T a, T b) {                     \
        volatile T result = expression;           \
        return result;                            \
    }
CUDA_ON_CPU_ROUNDED(float, __fadd_rn, a + b)
CUDA_ON_CPU_ROUNDED(float, __fsub_rn, a - b)
CUDA_ON_CPU_ROUNDED(float, __fmul_rn, a * b)
CUDA_ON_CPU_ROUNDED(float, __fdiv_rn, a / b)
CUDA_ON_CPU_ROUNDED(double, __dadd_rn, a + b)
CUDA_ON_CPU_ROUNDED(double, __dsub_rn, a - b)
CUDA_ON_CPU_ROUNDED(double, __dmul_rn, a * b)
CUDA_ON_CPU_ROUNDED(double, __ddiv_rn, a / b)
#undef CUDA_ON_CPU_ROUNDED
inline float __fadd_rd(float a, float b)
{
    const double sum = (double)a + (double)b;
    const float nearest = (float)sum;
    return (double)nearest > sum ? nextafterf(nearest, -INFINITY) : nearest;
}
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline float __frcp_rn(float x) { return __fdiv_rn(1.f, x); }
inline double __drcp_rn(double x) { return __ddiv_rn(1., x); }

// Under names of our own: newer versions of glibc have functions of these names with C linkage.
namespace cuda_on_cpu {
inline float inverse_sqrt(float x) { return 1.f / sqrtf(x); }
inline double inverse_sqrt(double x) { return 1. / sqrt(x); }
inline float sin_pi(float x) { return float(sin(M_PI * double(x))); }
inline float cos_pi(float x) { return float(cos(M_PI * double(x))); }
inline void sincos_pi(float x, float* s, float* c) { *s = sin_pi(x), *c = cos_pi(x); }
}  // namespace cuda_on_cpu
#define rsqrt cuda_on_cpu::inverse_sqrt
#define rsqrtf cuda_on_cpu::inverse_sqrt
#define sinpif cuda_on_cpu::sin_pi
#define cospif cuda_on_cpu::cos_pi
#define sincospif cuda_on_cpu::sincos_pi
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float norm3df(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }
inline float rnorm3df(float x, float y, float z) { return 1.f / norm3df(x, y, z); }
inline float __saturatef(float x) { return x > 0.f ? (x < 1.f ? x : 1.f) : 0.f; }
inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }

// The fast functions are the exact ones here: how inexact they are on a GPU can be seen on a GPU only.
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline void __sincosf(float x, float* s, float* c) { sincosf(x, s, c); }
inline float __fdividef(float a, float b) { return a / b; }

// ------------------------------------------------------------------------------------------------------ conversions
// A value out of range is clamped and NaN gives 0, as the cvt instruction does; a plain C++ cast would be undefined.
namespace cuda_on_cpu {
template <class To, class From> To clamp_cast(From x) {
    if (x != x) return 0;
    constexpr From end = From(2) * From(uint64_t(1) << (8 * sizeof(To) - 1 - std::is_signed_v<To>));
    if (x >= end) return std::is_signed_v<To> ? To(~(uint64_t(1) << (8 * sizeof(To) - 1))) : To(-1);
    if (x < (std::is_signed_v<To> ? -end : From(0))) return std::is_signed_v<To> ? To(uint64_t(1) << (8 * sizeof(To) - 1)) : To(0);
    return To(x);
}
}  // namespace cuda_on_cpu
#define CUDA_ON_CPU_CONVERSIONS(From, from, To, to)                                                           \
    inline To __##from##2##to##_rn(From x) { return cuda_on_cpu::clamp_cast<To, From>(nearbyint(x)); }        \
    inline To __##from##2##to##_rz(From x) { return cuda_on_cpu::clamp_cast<To, From>(trunc(x)); }            \
    inline To __##from##2##to##_rd(From x) { return cuda_on_cpu::clamp_cast<To, From>(floor(x)); }            \
    inline To __##from##2##to##_ru(From x) { return cuda_on_cpu::clamp_cast<To, From>(ceil(x)); }
#define CUDA_ON_CPU_FROM(From, from)                                        \
    CUDA_ON_CPU_CONVERSIONS(From, from, int, int)                           \
    CUDA_ON_CPU_CONVERSIONS(From, from, unsigned int, uint)                 \
    CUDA_ON_CPU_CONVERSIONS(From, from, long long, ll)                      \
    CUDA_ON_CPU_CONVERSIONS(From, from, unsigned long long, ull)            \
    inline From __int2##from##_rn(int x) { return From(x); }                \
    inline From __uint2##from##_rn(unsigned int x) { return From(x); }      \
    inline From __ll2##from##_rn(long long x) { return From(x); }           \
    inline From __ull2##from##_rn(unsigned long long x) { return From(x); }
CUDA_ON_CPU_FROM(float, float)
CUDA_ON_CPU_FROM(double, double)
#undef CUDA_ON_CPU_FROM
#undef CUDA_ON_CPU_CONVERSIONS
inline float __double2float_rn(double x) { return float(x); }
inline int __float_as_int(float x) { return cuda_on_cpu::read<int>(&x); }
inline unsigned int __float_as_uint(float x) { return cuda_on_cpu::read<unsigned int>(&x); }
inline float __int_as_float(int x) { return cuda_on_cpu::read<float>(&x); }
inline float __uint_as_float(unsigned int x) { return cuda_on_cpu::read<float>(&x); }
inline long long __double_as_longlong(double x) { return cuda_on_cpu::read<long long>(&x); }
inline double __longlong_as_double(long long x) { return cuda_on_cpu::read<double>(&x); }

// ------------------------------------------------------------------------------------------------------------- bits
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned int __umulhi(unsigned int a, unsigned int b) { return unsigned((uint64_t(a) * b) >> 32); }
inline int __mulhi(int a, int b) { return int((int64_t(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
inline unsigned int __brev(unsigned int x) {
    unsigned int r = 0;
    for (int i = 0; i < 32; ++i) r |= (x >> i & 1u) << (31 - i);
    return r;
}
