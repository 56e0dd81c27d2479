/* Widening of one block of narrow elements to float or double, exactly, so that two reductions serve every dtype.
 *
 * 8- and 16-bit integers and all floats narrower than float32 are exact in float; 32-bit integers are exact in double; a complex
 * element becomes its magnitude. Formats: IEEE 754 binary16, bfloat16, and the 8-bit formats of the OCP OFP8 and MX specifications
 * ("fnuz" variants: no infinity, no negative zero, NaN is 0x80, bias larger by one).
 */
#ifndef MSPROBE_DECODE_H
#define MSPROBE_DECODE_H

#include "blocks.h"

enum Code { BOOL, UINT8, INT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64,
            E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ, E8M0FNU, COMPLEX64, COMPLEX128, CODES };

static const unsigned char ITEMSIZE[CODES] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1, 1, 1, 8, 16};

static float FLOAT8[5][256]; /* by code - E4M3FN; filled once when the module is loaded */

static float small_float(unsigned bits, int mantissa_bits, int bias) {
    unsigned mantissa = bits & ((1u << mantissa_bits) - 1), exponent = (bits & 0x7f) >> mantissa_bits;
    float value = exponent ? ldexpf((float)(mantissa + (1u << mantissa_bits)), (int)exponent - bias - mantissa_bits)
                           : ldexpf((float)mantissa, 1 - bias - mantissa_bits);
    return bits & 0x80 ? -value : value;
}

static void fill_float8(void) {
    for (unsigned b = 0; b < 256; b++) {
        FLOAT8[0][b] = (b & 0x7f) == 0x7f ? NAN : small_float(b, 3, 7);
        FLOAT8[1][b] = (b & 0x7c) != 0x7c ? small_float(b, 2, 15) : b & 3 ? NAN : b & 0x80 ? -INFINITY : INFINITY;
        FLOAT8[2][b] = b == 0x80 ? NAN : small_float(b, 3, 8);
        FLOAT8[3][b] = b == 0x80 ? NAN : small_float(b, 2, 16);
        FLOAT8[4][b] = b == 0xff ? NAN : ldexpf(1.0f, (int)b - 127);
    }
}

static void widen_float16_plain(const uint16_t *x, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) out[i] = float16_to_float(x[i]);
}

#if defined(__x86_64__)
/* Every processor with AVX2 also converts float16 in hardware. */
__attribute__((target("avx2,f16c"))) static void widen_float16_avx2(const uint16_t *x, size_t n, float *out) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
    widen_float16_plain(x + i, n - i, out + i);
}

static void widen_float16(const uint16_t *x, size_t n, float *out) {
    if (__builtin_cpu_supports("avx2")) widen_float16_avx2(x, n, out);
    else widen_float16_plain(x, n, out);
}
#else
#define widen_float16 widen_float16_plain
#endif

CLONES static void widen_bfloat16(const uint16_t *x, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) out[i] = bfloat16_to_float(x[i]);
}

#define WIDEN(NAME, FROM, TO)                                                                                                              \
    CLONES static void NAME(const FROM *x, size_t n, TO *out) {                                                                            \
        for (size_t i = 0; i < n; i++) out[i] = (TO)x[i];                                                                                  \
    }

WIDEN(widen_uint8, uint8_t, float)
WIDEN(widen_int8, int8_t, float)
WIDEN(widen_int16, int16_t, float)
WIDEN(widen_uint16, uint16_t, float)
WIDEN(widen_int32, int32_t, double)
WIDEN(widen_uint32, uint32_t, double)

CLONES static void widen_bool(const uint8_t *x, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) out[i] = x[i] ? 1.0f : 0.0f;
}

static void widen_float8(const uint8_t *x, size_t n, const float *table, float *out) {
    for (size_t i = 0; i < n; i++) out[i] = table[x[i]];
}

/* Squares of floats cannot overflow in double. An infinite part makes the magnitude infinite even beside a NaN (C99 Annex G). */
static void magnitude_float(const float *x, size_t n, double *out) {
    for (size_t i = 0; i < n; i++) {
        double re = x[2 * i], im = x[2 * i + 1];
        out[i] = isinf(re) || isinf(im) ? INFINITY : sqrt(re * re + im * im);
    }
}

static void magnitude_double(const double *x, size_t n, double *out) {
    for (size_t i = 0; i < n; i++) out[i] = hypot(x[2 * i], x[2 * i + 1]);
}

/* Widens n elements into `room`; returns 1 when the result is float, 0 when it is double. */
static int widen(const void *x, size_t n, int code, void *room) {
    switch (code) {
    case BOOL: widen_bool(x, n, room); return 1;
    case UINT8: widen_uint8(x, n, room); return 1;
    case INT8: widen_int8(x, n, room); return 1;
    case INT16: widen_int16(x, n, room); return 1;
    case UINT16: widen_uint16(x, n, room); return 1;
    case FLOAT16: widen_float16(x, n, room); return 1;
    case BFLOAT16: widen_bfloat16(x, n, room); return 1;
    case INT32: widen_int32(x, n, room); return 0;
    case UINT32: widen_uint32(x, n, room); return 0;
    case COMPLEX64: magnitude_float(x, n, room); return 0;
    case COMPLEX128: magnitude_double(x, n, room); return 0;
    default: widen_float8(x, n, FLOAT8[code - E4M3FN], room); return 1;
    }
}

#endif
