/* What a monitor asks of a tensor, each in a pass of its own that is as fast as the memory: the sum of squares, and how many elements
 * are small. Floats only; the squares of floats are exact in double, and are summed in fixed lanes.
 */
#ifndef MSPROBE_MOMENTS_H
#define MSPROBE_MOMENTS_H

#include "decode.h"

#define SUM_LANES 32
#define AHEAD 4096 /* bytes; the processor itself does not fetch beyond the page that it reads */

/* Sums of squares; both halves of what is read at once, since one alone does not fill the path to the memory. */
typedef struct {
    double of[2][SUM_LANES];
} Squares;

#define MOMENTS(NAME, FLOAT, ABS)                                                                                                          \
    CLONES static void add_squares_of_##NAME(const FLOAT *x, size_t n, Squares *lanes) {                                                   \
        Squares sums = *lanes;                                                                                                             \
        size_t half = n / (2 * SUM_LANES) * SUM_LANES;                                                                                     \
        int far = n > BLOCK; /* what is shorter is in the cache: small, or just widened */                                                 \
        for (size_t i = 0; i < half; i += SUM_LANES) {                                                                                     \
            for (size_t part = 0; part < 2; part++) {                                                                                      \
                const FLOAT *at = x + part * half + i;                                                                                     \
                for (size_t line = 0; far && line < SUM_LANES * sizeof(FLOAT); line += 64)                                                 \
                    __builtin_prefetch((const char *)at + AHEAD + line);                                                                   \
                for (size_t k = 0; k < SUM_LANES; k++) {                                                                                   \
                    double wide = at[k];                                                                                                   \
                    sums.of[part][k] += wide * wide;                                                                                       \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (size_t i = 2 * half, k = 0; i < n; i++, k++) sums.of[k / SUM_LANES][k % SUM_LANES] += (double)x[i] * (double)x[i];            \
        *lanes = sums;                                                                                                                     \
    }                                                                                                                                      \
    CLONES static uint64_t small_of_##NAME(const FLOAT *x, size_t n, FLOAT bound) {                                                        \
        uint32_t count = 0; /* as wide as a float, so that comparisons vectorise; n is that of a block */                                  \
        for (size_t i = 0; i < n; i++) count += ABS(x[i]) < bound;                                                                         \
        return count;                                                                                                                      \
    }

MOMENTS(float, float, fabsf)
MOMENTS(double, double, fabs)

#define PASS ((size_t)1 << 16) /* elements at once */

/* Calls FLOATS or DOUBLES for one part of the elements after the other, widened where their type is narrower than float. */
#define EACH_PASS(x, n, code, FLOATS, DOUBLES)                                                                                             \
    float room[BLOCK];                                                                                                                     \
    size_t length = (code) == FLOAT32 || (code) == FLOAT64 ? PASS : BLOCK;                                                                 \
    for (size_t done = 0, part; done < (n); done += part) {                                                                                \
        const unsigned char *at = (x) + done * ITEMSIZE[code];                                                                             \
        part = (n) - done < length ? (n) - done : length;                                                                                  \
        if ((code) == FLOAT64) {                                                                                                           \
            const double *y = (const double *)at;                                                                                          \
            DOUBLES;                                                                                                                       \
        } else {                                                                                                                           \
            const float *y = (const float *)at;                                                                                            \
            if ((code) != FLOAT32) {                                                                                                       \
                widen(at, part, code, room);                                                                                               \
                y = room;                                                                                                                  \
            }                                                                                                                              \
            FLOATS;                                                                                                                        \
        }                                                                                                                                  \
    }

static double sum_squares(const unsigned char *x, size_t n, int code) {
    Squares lanes = {{{0}}};
    double sum = 0;
    EACH_PASS(x, n, code, add_squares_of_float(y, part, &lanes), add_squares_of_double(y, part, &lanes))
    for (size_t k = 0; k < SUM_LANES; k++) sum += lanes.of[0][k] + lanes.of[1][k];
    return sum;
}

static uint64_t count_small(const unsigned char *x, size_t n, int code, double bound) {
    uint64_t count = 0;
    EACH_PASS(x, n, code, count += small_of_float(y, part, (float)bound), count += small_of_double(y, part, bound))
    return count;
}

#endif
