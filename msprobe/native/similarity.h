/* One pass over two tensors for how similar they are. Optional: msprobe.numerics.metrics.pair_sums has the definitions and the Python
 * equivalent.
 *
 * Sums run in double over fixed lanes and are joined block by block. NaN and infinite elements are counted on each side; where there is
 * any, the sums mean nothing. Steps are counted as in elements.h, between the bits themselves.
 */
#ifndef MSPROBE_SIMILARITY_H
#define MSPROBE_SIMILARITY_H

#include <float.h>

#include "blocks.h"
#include "decode.h"

#define ROWS 8 /* lanes, on every processor */

typedef struct {
    double dot, square_n, square_b, square_difference, apart, largest_n, largest_b;
    int64_t odd_n, odd_b;
    uint64_t steps;
} Similarity;

typedef float EightFloats __attribute__((vector_size(32), aligned(4), may_alias));
typedef double EightDoubles __attribute__((vector_size(64), aligned(8), may_alias));
typedef double Doubles8 __attribute__((vector_size(64)));
typedef float FourFloats __attribute__((vector_size(16), aligned(4), may_alias));
typedef double FourDoubles __attribute__((vector_size(32), aligned(8), may_alias));
typedef uint16_t FourHalves __attribute__((vector_size(8), aligned(2), may_alias));
typedef uint32_t Words4 __attribute__((vector_size(16)));
typedef float Floats4 __attribute__((vector_size(16)));
typedef double Doubles4 __attribute__((vector_size(32)));

/* Each reads a vector of elements as doubles. */
#define READ4_FLOATS(p) __builtin_convertvector(*(const FourFloats *)(p), Doubles4)
#define READ8_FLOATS(p) __builtin_convertvector(*(const EightFloats *)(p), Doubles8)
#define READ4_DOUBLES(p) (*(const FourDoubles *)(p))
#define READ8_DOUBLES(p) (*(const EightDoubles *)(p))
#define READ4_BFLOATS(p) __builtin_convertvector((Floats4)(__builtin_convertvector(*(const FourHalves *)(p), Words4) << 16), Doubles4)

/* Adds the sums over finite elements, and keeps the largest difference; `count` is a multiple of ROWS, of which a vector VALUES holds all
 * or half. Products of floats are exact in double, so that MULTIPLY_ADD gives the same bits fused or not; those of differences and of
 * doubles are not: never fused. */
#define SUMS(TARGET, NAME, ELEMENT, READ, VALUES, MULTIPLY_ADD, FARTHER)                                                                   \
    TARGET static void NAME(const void *left, const void *right, size_t count, Similarity *t) {                                            \
        enum { WIDE = sizeof(VALUES) / sizeof(double), HALVES = ROWS / WIDE };                                                             \
        const ELEMENT *n = left, *b = right;                                                                                               \
        VALUES dot[HALVES] = {{0}}, sn[HALVES] = {{0}}, sb[HALVES] = {{0}}, sd[HALVES] = {{0}}, far[HALVES] = {{0}};                       \
        for (size_t i = 0; i < count; i += ROWS) {                                                                                         \
            for (size_t h = 0; h < HALVES; h++) {                                                                                          \
                VALUES x = READ(n + i + h * WIDE);                                                                                         \
                VALUES y = READ(b + i + h * WIDE);                                                                                         \
                VALUES d = x - y;                                                                                                          \
                dot[h] = MULTIPLY_ADD(x, y, dot[h]);                                                                                       \
                sn[h] = MULTIPLY_ADD(x, x, sn[h]);                                                                                         \
                sb[h] = MULTIPLY_ADD(y, y, sb[h]);                                                                                         \
                sd[h] += d * d;                                                                                                            \
                far[h] = FARTHER(d, far[h]);                                                                                               \
            }                                                                                                                              \
        }                                                                                                                                  \
        t->dot += add_lanes((const double *)dot);                                                                                          \
        t->square_n += add_lanes((const double *)sn);                                                                                      \
        t->square_b += add_lanes((const double *)sb);                                                                                      \
        t->square_difference += add_lanes((const double *)sd);                                                                             \
        for (size_t k = 0; k < ROWS; k++) t->apart = fmax(t->apart, ((const double *)far)[k]);                                             \
    }

/* The largest difference, for processors whose vectors of doubles have no maximum that the loop above could use; in the type of the
 * elements, where bits of numbers without a sign are in their order. */
#define APART(NAME, ELEMENT, FLOAT, UINT, READ)                                                                                            \
    CLONES static void NAME(const void *left, const void *right, size_t count, double *apart) {                                            \
        const ELEMENT *n = left, *b = right;                                                                                               \
        UINT most = 0;                                                                                                                     \
        FLOAT value;                                                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                                               \
            FLOAT d = READ(n[i]) - READ(b[i]);                                                                                             \
            UINT bits;                                                                                                                     \
            memcpy(&bits, &d, sizeof bits);                                                                                                \
            bits &= (UINT)~(UINT)0 >> 1;                                                                                                   \
            most = bits > most ? bits : most;                                                                                              \
        }                                                                                                                                  \
        memcpy(&value, &most, sizeof value);                                                                                               \
        *apart = value > *apart ? value : *apart;                                                                                          \
    }

typedef float SideFloat __attribute__((may_alias));
typedef double SideDouble __attribute__((may_alias));
typedef uint16_t SideHalf __attribute__((may_alias));
#define AS_IT_IS(x) (x)
APART(apart_floats, SideFloat, float, uint32_t, AS_IT_IS)
APART(apart_doubles, SideDouble, double, uint64_t, AS_IT_IS)
APART(apart_bfloats, SideHalf, float, uint32_t, bfloat16_to_float)
#define LATER(d, most) (most)

#define IN_TWO_STEPS(x, y, sum) ((sum) + (x) * (y))
SUMS(, sums_of_floats_plain, float, READ4_FLOATS, Doubles4, IN_TWO_STEPS, LATER)
SUMS(, sums_of_doubles_plain, double, READ4_DOUBLES, Doubles4, IN_TWO_STEPS, LATER)
SUMS(, sums_of_bfloats_plain, uint16_t, READ4_BFLOATS, Doubles4, IN_TWO_STEPS, LATER)
#if defined(__x86_64__)
/* Of each, as in blocks.h: vector extensions are lowered before target_clones could choose. */
#define ON_AVX2 __attribute__((target("avx2,fma")))
#define ON_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#define FUSED4(x, y, sum) ((Doubles4)_mm256_fmadd_pd((__m256d)(x), (__m256d)(y), (__m256d)(sum)))
#define FUSED8(x, y, sum) ((Doubles8)_mm512_fmadd_pd((__m512d)(x), (__m512d)(y), (__m512d)(sum)))
#define FARTHER4(d, most) ((Doubles4)_mm256_max_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), (__m256d)(d)), (__m256d)(most)))
#define FARTHER8(d, most) ((Doubles8)_mm512_max_pd(_mm512_abs_pd((__m512d)(d)), (__m512d)(most)))
/* gcc turns the plain way into worse code. */
#define WORDS4(p) _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)(p))), 16)
#define READ4_BFLOATS_AVX2(p) ((Doubles4)_mm256_cvtps_pd(_mm_castsi128_ps(WORDS4(p))))
#define WORDS8(p) _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p))), 16)
#define READ8_BFLOATS(p) ((Doubles8)_mm512_cvtps_pd(_mm256_castsi256_ps(WORDS8(p))))
SUMS(ON_AVX2, sums_of_floats_avx2, float, READ4_FLOATS, Doubles4, FUSED4, FARTHER4)
SUMS(ON_AVX2, sums_of_doubles_avx2, double, READ4_DOUBLES, Doubles4, IN_TWO_STEPS, FARTHER4)
SUMS(ON_AVX2, sums_of_bfloats_avx2, uint16_t, READ4_BFLOATS_AVX2, Doubles4, FUSED4, FARTHER4)
SUMS(ON_AVX512, sums_of_floats_avx512, float, READ8_FLOATS, Doubles8, FUSED8, FARTHER8)
SUMS(ON_AVX512, sums_of_doubles_avx512, double, READ8_DOUBLES, Doubles8, IN_TWO_STEPS, FARTHER8)
SUMS(ON_AVX512, sums_of_bfloats_avx512, uint16_t, READ8_BFLOATS, Doubles8, FUSED8, FARTHER8)
#endif

typedef void Sum(const void *, const void *, size_t, Similarity *);
typedef void Apart(const void *, const void *, size_t, double *);
static struct {
    Sum *floats, *doubles, *bfloats;
    int apart_later; /* the largest difference is left to a loop of its own */
} sums = {sums_of_floats_plain, sums_of_doubles_plain, sums_of_bfloats_plain, 1};

static void choose_sums(void) {
#if defined(__x86_64__)
    sums.apart_later = !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw")) {
        sums.floats = sums_of_floats_avx512;
        sums.doubles = sums_of_doubles_avx512;
        sums.bfloats = sums_of_bfloats_avx512;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sums.floats = sums_of_floats_avx2;
        sums.doubles = sums_of_doubles_avx2;
        sums.bfloats = sums_of_bfloats_avx2;
    }
#endif
}

/* The bits of the largest magnitude on each side, and the most steps between n and b. Bits without their sign are in the order of the
 * floats; steps are between integers in that order, magnitudes with their sign. */
typedef struct {
    uint64_t largest_n, largest_b, steps;
} Bits;

#define BITS(NAME, INT, UINT)                                                                                                              \
    CLONES static Bits NAME(const void *n, const void *b, size_t count) {                                                                  \
        const UINT magnitude = (UINT) ~(UINT)0 >> 1;                                                                                       \
        UINT largest_n = 0, largest_b = 0, most = 0;                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                                               \
            INT p, q, low, high;                                                                                                           \
            memcpy(&p, (const char *)n + i * sizeof p, sizeof p);                                                                          \
            memcpy(&q, (const char *)b + i * sizeof q, sizeof q);                                                                          \
            INT minus_p = (INT)(p >> (8 * sizeof p - 1)), minus_q = (INT)(q >> (8 * sizeof q - 1));                                        \
            UINT size_p = (UINT)p & magnitude, size_q = (UINT)q & magnitude;                                                               \
            largest_n = size_p > largest_n ? size_p : largest_n;                                                                           \
            largest_b = size_q > largest_b ? size_q : largest_b;                                                                           \
            p = (INT)(((INT)size_p ^ minus_p) - minus_p);                                                                                  \
            q = (INT)(((INT)size_q ^ minus_q) - minus_q);                                                                                  \
            low = p < q ? p : q;                                                                                                           \
            high = p < q ? q : p;                                                                                                          \
            UINT step = (UINT)((UINT)high - (UINT)low);                                                                                    \
            most = step > most ? step : most;                                                                                              \
        }                                                                                                                                  \
        return (Bits){largest_n, largest_b, most};                                                                                         \
    }

BITS(bits8, int8_t, uint8_t)
BITS(bits16, int16_t, uint16_t)
BITS(bits32, int32_t, uint32_t)
BITS(bits64, int64_t, uint64_t)

static Bits bits_of(const void *n, const void *b, size_t count, int code) {
    switch (ITEMSIZE[code]) {
    case 1: return bits8(n, b, count);
    case 2: return bits16(n, b, count);
    case 4: return bits32(n, b, count);
    default: return bits64(n, b, count);
    }
}

/* The value of the largest magnitude that BITS found; `code` is not an 8-bit float. */
static double magnitude_of(uint64_t bits, int code) {
    double wide;
    float value;
    uint32_t word = (uint32_t)bits;
    if (code == FLOAT64) {
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    }
    if (code == FLOAT16) return float16_to_float((uint16_t)bits);
    if (code == BFLOAT16) return bfloat16_to_float((uint16_t)bits);
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Keeps the largest magnitude of one side, or counts the elements that are not finite if it is one of them. */
static void note_largest(double most, const void *x, size_t part, int code, double *largest, int64_t *odd) {
    double room[BLOCK];
    if (isfinite(most)) {
        *largest = most > *largest ? most : *largest;
    } else if (code == FLOAT64) {
        for (size_t i = 0; i < part; i++) *odd += !isfinite(((const SideDouble *)x)[i]);
    } else {
        if (code != FLOAT32) widen(x, part, code, room);
        const SideFloat *values = code == FLOAT32 ? x : (const void *)room;
        for (size_t i = 0; i < part; i++) *odd += !isfinite(values[i]);
    }
}

/* At most BLOCK elements of type `code`. A tail is padded with zeros, which change nothing. */
static void similarity_of_block(const unsigned char *n, const unsigned char *b, size_t part, int code, Similarity *t) {
    double room_n[BLOCK], room_b[BLOCK];
    const void *left = n, *right = b;
    int is_read = code == FLOAT32 || code == FLOAT64 || code == BFLOAT16; /* others are widened to floats */
    int read_as = is_read ? code : FLOAT32;
    size_t padded = (part + ROWS - 1) / ROWS * ROWS, wide = ITEMSIZE[read_as];
    if (!is_read || padded != part) {
        if (is_read) {
            memcpy(room_n, n, part * wide);
            memcpy(room_b, b, part * wide);
        } else {
            widen(n, part, code, room_n);
            widen(b, part, code, room_b);
        }
        memset((char *)room_n + part * wide, 0, (padded - part) * wide);
        memset((char *)room_b + part * wide, 0, (padded - part) * wide);
        left = room_n;
        right = room_b;
    }
    Bits own = bits_of(n, b, part, code), bits = ITEMSIZE[code] == 1 ? bits_of(left, right, part, FLOAT32) : own;
    int named = ITEMSIZE[code] == 1 ? FLOAT32 : code;
    note_largest(magnitude_of(bits.largest_n, named), n, part, code, &t->largest_n, &t->odd_n);
    note_largest(magnitude_of(bits.largest_b, named), b, part, code, &t->largest_b, &t->odd_b);
    if (t->odd_n || t->odd_b) return;
    (read_as == FLOAT64 ? sums.doubles : read_as == BFLOAT16 ? sums.bfloats : sums.floats)(left, right, padded, t);
    if (sums.apart_later && own.steps) {
        Apart *apart = read_as == FLOAT64 ? apart_doubles : read_as == BFLOAT16 ? apart_bfloats : apart_floats;
        apart(left, right, padded, &t->apart);
    }
    t->steps = own.steps > t->steps ? own.steps : t->steps;
}

/* Both tensors have `count` elements of type `code`, a float of any width. */
static void measure_similarity(const unsigned char *n, const unsigned char *b, size_t count, int code, Similarity *t) {
    memset(t, 0, sizeof *t);
    while (count) {
        size_t part = count < BLOCK ? count : BLOCK;
        similarity_of_block(n, b, part, code, t);
        n += part * ITEMSIZE[code];
        b += part * ITEMSIZE[code];
        count -= part;
    }
}

#endif
