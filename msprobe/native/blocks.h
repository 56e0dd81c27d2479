/* Reduction of one block of float, double or 64-bit integer elements, in the best instruction set of this processor.
 *
 * Sums run in double over a fixed number of lanes, so AVX-512, AVX2, SSE2 and NEON give the same bits. A NaN is ignored by max and min
 * but always reaches the sum of squares, which therefore tells (isnan) whether the block held one. Callers join the blocks.
 */
#ifndef MSPROBE_BLOCKS_H
#define MSPROBE_BLOCKS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "halves.h"
#include "weights.h"

/* Plain loops are compiled for three instruction sets, chosen at load time (gcc with glibc's indirect functions). An older gcc knows
 * them by processors of Intel only, and other processors then get the plain loop. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define CLONES
#endif

typedef struct {
    double max, min, sum, sumsq;
    double turned[2];   /* the sums of the weighted elements, for each BLOCK of them; only if `projecting` is set */
    int64_t imax, imin; /* set by the integer reductions instead of max and min; unsigned ones keep their bits here */
    uint64_t nonfinite; /* set by the caller of the reduction */
    int projecting;
} Block;

/* The loop over n narrow elements, BLOCK of them at a time: the weights begin again with each part. */
#define EACH_PART(part, n) for (size_t part = 0; part < 2 && (part == 0 || part * BLOCK < (n)); part++)
#define END_OF_PART(part, n) ((n) < ((part) + 1) * BLOCK ? (n) : ((part) + 1) * BLOCK)

static inline double add_lanes(const double *v) { return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])); }

/* What a block of narrow elements is reduced to before its lanes are joined: lane k has the elements k, k + 16, ... */
typedef struct {
    float top[16], low[16];
    double sum[16], square[16], turned[2][16];
} Lanes;

/* Adds element i + k of the block, where i is a multiple of 16. */
static inline void add_to_lane(Lanes *lanes, size_t i, size_t k, float v) {
    lanes->top[k] = v > lanes->top[k] ? v : lanes->top[k];
    lanes->low[k] = v < lanes->low[k] ? v : lanes->low[k];
    lanes->sum[k] += v;
    lanes->square[k] += (double)v * v;
    lanes->turned[i / BLOCK][k] = fma(v, PLACE[(i + k) % BLOCK], lanes->turned[i / BLOCK][k]);
}

static inline void join_lanes(Lanes *lanes, size_t n, Block *out) {
    for (size_t half = 8; half; half /= 2) {
        for (size_t k = 0; k < half; k++) {
            lanes->top[k] = lanes->top[k + half] > lanes->top[k] ? lanes->top[k + half] : lanes->top[k];
            lanes->low[k] = lanes->low[k + half] < lanes->low[k] ? lanes->low[k + half] : lanes->low[k];
        }
    }
    out->max = lanes->top[0];
    out->min = lanes->low[0];
    out->sum = add_lanes(lanes->sum) + add_lanes(lanes->sum + 8);
    out->sumsq = add_lanes(lanes->square) + add_lanes(lanes->square + 8);
    EACH_PART(part, n) out->turned[part] = add_lanes(lanes->turned[part]) + add_lanes(lanes->turned[part] + 8);
}

typedef struct {
    void (*float32)(const float *, size_t, Block *);
    void (*float16)(const uint16_t *, size_t, Block *); /* these two may be NULL: widen first, for the same bits */
    void (*bfloat16)(const uint16_t *, size_t, Block *);
    void (*float64)(const double *, size_t, double scale, Block *);
    void (*int64)(const int64_t *, size_t, double unused, Block *);
    void (*uint64)(const uint64_t *, size_t, double unused, Block *);
} Reductions;

#define REDUCTIONS(suffix, half, bhalf) {reduce_float##suffix, half, bhalf, reduce_double##suffix, reduce_int64##suffix, reduce_uint64##suffix}

#define TARGET
#define VARIANT(name) name##_plain
#define WIDTH 16
#include "reduce.h"

static Reductions reduce = REDUCTIONS(_plain, NULL, NULL);

#if defined(__x86_64__)
#include <immintrin.h>

/* The max and min instructions return their second operand when either is NaN: the running extreme survives. */
#define TARGET __attribute__((target("avx2,f16c,fma")))
#define VARIANT(name) name##_avx2
#define WIDTH 32
#define HIGHER(v, top) ((VARIANT(Floats))_mm256_max_ps((__m256)(v), (__m256)(top)))
#define LOWER(v, low) ((VARIANT(Floats))_mm256_min_ps((__m256)(v), (__m256)(low)))
#define LOAD_WIDENED(at) ((VARIANT(Doubles))_mm256_cvtps_pd(_mm_loadu_ps(at)))
#define WIDENED(v, half) ((VARIANT(Doubles))_mm256_cvtps_pd(_mm256_extractf128_ps(v, half)))
#define LOAD_FLOAT16(at) ((VARIANT(Floats))_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(at))))
#define HALF_OF(at, v, half) ((VARIANT(Doubles))_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)(v), half)))
#define ADD(v, sum) ((VARIANT(Doubles))_mm256_fmadd_pd((__m256d)(v), _mm256_set1_pd(1.0), (__m256d)(sum)))
#define ADD_SQUARE(v, square) ((VARIANT(Doubles))_mm256_fmadd_pd((__m256d)(v), (__m256d)(v), (__m256d)(square)))
#define ADD_PRODUCT(v, weight, sum) ((VARIANT(Doubles))_mm256_fmadd_pd((__m256d)(v), (__m256d)(weight), (__m256d)(sum)))
#include "reduce.h"

#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#define VARIANT(name) name##_avx512
#define WIDTH 64
#define HIGHER(v, top) ((VARIANT(Floats))_mm512_max_ps((__m512)(v), (__m512)(top)))
#define LOWER(v, low) ((VARIANT(Floats))_mm512_min_ps((__m512)(v), (__m512)(low)))
#define LOAD_WIDENED(at) ((VARIANT(Doubles))_mm512_cvtps_pd(_mm256_loadu_ps(at)))
#define WIDENED(v, whole) ((VARIANT(Doubles))_mm512_cvtps_pd(v))
#define LOAD_FLOAT16(at) ((VARIANT(Floats))_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(at))))
#define HALF_OF(at, v, half) ((VARIANT(Doubles))_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)(v), half)))
#define ADD(v, sum) ((VARIANT(Doubles))_mm512_fmadd_pd((__m512d)(v), _mm512_set1_pd(1.0), (__m512d)(sum)))
#define ADD_SQUARE(v, square) ((VARIANT(Doubles))_mm512_fmadd_pd((__m512d)(v), (__m512d)(v), (__m512d)(square)))
#define ADD_PRODUCT(v, weight, sum) ((VARIANT(Doubles))_mm512_fmadd_pd((__m512d)(v), (__m512d)(weight), (__m512d)(sum)))
#include "reduce.h"

static void choose_reductions(void) {
    static const Reductions avx2 = REDUCTIONS(_avx2, reduce_float16_avx2, reduce_bfloat16_avx2);
    static const Reductions avx512 = REDUCTIONS(_avx512, reduce_float16_avx512, reduce_bfloat16_avx512);
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) reduce = avx2;
    if (!__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw")) return;
    if (__builtin_cpu_is("amdfam19h")) { /* Zen 4 works in halves of 32 bytes, and widens these faster when they come as such */
        reduce.bfloat16 = avx512.bfloat16;
        reduce.int64 = avx512.int64;
        reduce.uint64 = avx512.uint64;
    } else {
        reduce = avx512;
    }
}
#else
static void choose_reductions(void) {}
#endif

#endif
