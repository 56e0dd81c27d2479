/* One pass over two tensors for everything a comparison reports. Optional: msprobe.numerics.metrics.tensor has the Python equivalent.
 *
 * Sums run in double over fixed lanes and are joined block by block. The relative error is computed in the tensors' own type (float for
 * float16): r = |(n - b) / b|, with the type's epsilon added to both where b is zero. NaN and Inf at the same place and of the same sign
 * count as equal and enter the sums as 0; any other makes the pair odd, and the numbers then mean nothing.
 */
#ifndef MSPROBE_DIFFERENCE_H
#define MSPROBE_DIFFERENCE_H

#include <float.h>

#include "blocks.h"
#include "decode.h"

#define LANES 8

typedef struct {
    double dot, square_n, square_b, square_difference, max_difference, max_value, max_relative;
    int64_t below_one, below_five;
    int odd;
} Difference;

/* COUNTER is as wide as the elements, so that comparisons vectorise; a block has fewer elements than the narrowest can count. */
#define DIFFERENCE(NAME, FLOAT, COUNTER, ABS, EPSILON, LARGEST)                                                                            \
    CLONES static void NAME##_sums(const FLOAT *n, const FLOAT *b, size_t count, Difference *t, int64_t *not_finite) {                     \
        double dot[LANES] = {0}, sn[LANES] = {0}, sb[LANES] = {0}, sd[LANES] = {0}, md[LANES] = {0};                                      \
        FLOAT mv[LANES] = {0}, mr[LANES] = {0};                                                                                            \
        COUNTER one[LANES] = {0}, five[LANES] = {0}, bad[LANES] = {0};                                                                     \
        for (size_t i = 0; i < count; i += LANES) {                                                                                        \
            for (size_t l = 0; l < LANES; l++) {                                                                                           \
                FLOAT x = n[i + l], y = b[i + l], ax = ABS(x), ay = ABS(y), zero = y == 0 ? (FLOAT)EPSILON : 0;                           \
                FLOAT r = ABS(((x + zero) - (y + zero)) / (y + zero));                                                                     \
                double wx = x, wy = y, d = wx - wy, ad = fabs(d);                                                                          \
                dot[l] += wx * wy;                                                                                                         \
                sn[l] += wx * wx;                                                                                                          \
                sb[l] += wy * wy;                                                                                                          \
                sd[l] += d * d;                                                                                                            \
                md[l] = ad > md[l] ? ad : md[l];                                                                                           \
                mv[l] = ax > mv[l] ? ax : mv[l];                                                                                           \
                mv[l] = ay > mv[l] ? ay : mv[l];                                                                                           \
                mr[l] = r > mr[l] ? r : mr[l];                                                                                             \
                one[l] += r < (FLOAT)0.001;                                                                                                \
                five[l] += r < (FLOAT)0.005;                                                                                               \
                bad[l] += !(ax <= LARGEST) | !(ay <= LARGEST);                                                                             \
            }                                                                                                                              \
        }                                                                                                                                  \
        *not_finite = 0;                                                                                                                   \
        for (size_t l = 0; l < LANES; l++) *not_finite += bad[l];                                                                          \
        if (*not_finite) return;                                                                                                           \
        t->dot += add_lanes(dot);                                                                                                          \
        t->square_n += add_lanes(sn);                                                                                                      \
        t->square_b += add_lanes(sb);                                                                                                      \
        t->square_difference += add_lanes(sd);                                                                                             \
        for (size_t l = 0; l < LANES; l++) {                                                                                               \
            t->max_difference = fmax(t->max_difference, md[l]);                                                                            \
            t->max_value = fmax(t->max_value, mv[l]);                                                                                      \
            t->max_relative = fmax(t->max_relative, mr[l]);                                                                                \
            t->below_one += one[l];                                                                                                        \
            t->below_five += five[l];                                                                                                      \
        }                                                                                                                                  \
    }                                                                                                                                      \
                                                                                                                                           \
    /* At most BLOCK elements. A tail is padded with zeros, which add nothing but two counts each. */                                      \
    static void NAME(const FLOAT *n, const FLOAT *b, size_t count, Difference *t) {                                                        \
        FLOAT left[BLOCK], right[BLOCK];                                                                                                   \
        size_t padded = (count + LANES - 1) / LANES * LANES;                                                                               \
        int64_t not_finite = 1;                                                                                                            \
        if (padded == count) NAME##_sums(n, b, count, t, &not_finite);                                                                     \
        if (!not_finite) return;                                                                                                           \
        for (size_t i = 0; i < padded; i++) {                                                                                              \
            int inside = i < count, fine = inside && ABS(n[i]) <= LARGEST && ABS(b[i]) <= LARGEST;                                         \
            if (inside && !fine && !(n[i] == b[i] || (isnan(n[i]) && isnan(b[i])))) t->odd = 1;                                            \
            left[i] = fine ? n[i] : 0;                                                                                                     \
            right[i] = fine ? b[i] : 0;                                                                                                    \
        }                                                                                                                                  \
        NAME##_sums(left, right, padded, t, &not_finite);                                                                                  \
        t->below_one -= (int64_t)(padded - count);                                                                                         \
        t->below_five -= (int64_t)(padded - count);                                                                                        \
    }

DIFFERENCE(difference_float, float, int32_t, fabsf, FLT_EPSILON, FLT_MAX)
DIFFERENCE(difference_double, double, int64_t, fabs, DBL_EPSILON, DBL_MAX)

/* Both tensors have `count` elements of type `code`: float16, bfloat16, float32 or float64. Stops at the first odd block. */
static void measure_difference(const unsigned char *n, const unsigned char *b, size_t count, int code, Difference *t) {
    float left[BLOCK], right[BLOCK];
    memset(t, 0, sizeof *t);
    while (count && !t->odd) {
        size_t part = count < BLOCK ? count : BLOCK;
        if (code == FLOAT64) {
            difference_double((const double *)n, (const double *)b, part, t);
        } else if (code == FLOAT32) {
            difference_float((const float *)n, (const float *)b, part, t);
        } else {
            widen(n, part, code, left);
            widen(b, part, code, right);
            difference_float(left, right, part, t);
        }
        n += part * ITEMSIZE[code];
        b += part * ITEMSIZE[code];
        count -= part;
    }
}

#endif
