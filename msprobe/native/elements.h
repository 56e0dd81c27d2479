/* One pass over two tensors for where they differ most, element by element. Optional: msprobe.numerics.metrics.elements has the
 * definitions and the Python equivalent.
 *
 * Elements become integers in the order of the floats (negative ones mirrored), so that their difference counts the steps between
 * them. NaN and Inf at the same place and of the same sign count as equal; any other place is the worst there is.
 */
#ifndef MSPROBE_ELEMENTS_H
#define MSPROBE_ELEMENTS_H

#include "difference.h"

typedef struct {
    double rtol, atol, largest;
    int64_t first, worst; /* -1: none */
    uint64_t steps;
    int far, odd;
} Elements;

typedef float AnyFloat __attribute__((may_alias));
typedef double AnyDouble __attribute__((may_alias));
typedef int32_t AnyInt32 __attribute__((may_alias));
typedef int64_t AnyInt64 __attribute__((may_alias));

#define ELEMENTS(NAME, FLOAT, INT, UINT, ABS, LARGEST)                                                                                     \
    CLONES static int64_t NAME##_lanes(const FLOAT *n, const FLOAT *b, const INT *kn, const INT *kb, size_t count, INT lowest, Elements *t, \
                                       double *largest) {                                                                                  \
        double most[LANES] = {0};                                                                                                          \
        UINT steps[LANES] = {0}, far[LANES] = {0}, bad[LANES] = {0};                                                                      \
        for (size_t i = 0; i < count; i += LANES) {                                                                                        \
            for (size_t l = 0; l < LANES; l++) {                                                                                           \
                FLOAT x = n[i + l], y = b[i + l];                                                                                          \
                INT p = kn[i + l], q = kb[i + l];                                                                                          \
                double apart = fabs((double)x - (double)y);                                                                                \
                p = p < 0 ? lowest - p : p;                                                                                                \
                q = q < 0 ? lowest - q : q;                                                                                                \
                UINT step = p > q ? (UINT)p - (UINT)q : (UINT)q - (UINT)p;                                                                 \
                most[l] = apart > most[l] ? apart : most[l];                                                                               \
                steps[l] = step > steps[l] ? step : steps[l];                                                                              \
                far[l] |= apart > t->atol + t->rtol * fabs((double)y);                                                                     \
                bad[l] |= !(ABS(x) <= LARGEST) | !(ABS(y) <= LARGEST);                                                                     \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (size_t l = 0; l < LANES; l++) {                                                                                               \
            if (bad[l]) return 1;                                                                                                          \
        }                                                                                                                                  \
        for (size_t l = 0; l < LANES; l++) {                                                                                               \
            *largest = most[l] > *largest ? most[l] : *largest;                                                                            \
            t->steps = steps[l] > t->steps ? steps[l] : t->steps;                                                                          \
            t->far |= far[l] != 0;                                                                                                         \
        }                                                                                                                                  \
        return 0;                                                                                                                          \
    }                                                                                                                                      \
                                                                                                                                           \
    /* At most BLOCK elements, the first of which has the index `start`. */                                                               \
    static void NAME(const FLOAT *n, const FLOAT *b, const INT *kn, const INT *kb, size_t count, INT lowest, int64_t start, Elements *t) { \
        FLOAT left[BLOCK], right[BLOCK];                                                                                                   \
        INT low[BLOCK], high[BLOCK];                                                                                                       \
        double largest = 0;                                                                                                                \
        for (size_t i = 0; t->first < 0 && i < count; i++) {                                                                               \
            if (n[i] != b[i] && !(isnan(n[i]) && isnan(b[i]))) t->first = start + (int64_t)i;                                              \
        }                                                                                                                                  \
        if (t->first < 0) return;                                                                                                          \
        if (count % LANES || NAME##_lanes(n, b, kn, kb, count, lowest, t, &largest)) {                                                     \
            size_t padded = (count + LANES - 1) / LANES * LANES;                                                                           \
            largest = 0;                                                                                                                   \
            for (size_t i = 0; i < padded; i++) {                                                                                          \
                int inside = i < count, fine = inside && ABS(n[i]) <= LARGEST && ABS(b[i]) <= LARGEST;                                     \
                if (inside && !fine && !t->odd && !(n[i] == b[i] || (isnan(n[i]) && isnan(b[i])))) {                                       \
                    t->odd = 1;                                                                                                            \
                    t->worst = start + (int64_t)i;                                                                                         \
                }                                                                                                                          \
                left[i] = fine ? n[i] : 0;                                                                                                 \
                right[i] = fine ? b[i] : 0;                                                                                                \
                low[i] = fine ? kn[i] : 0;                                                                                                 \
                high[i] = fine ? kb[i] : 0;                                                                                                \
            }                                                                                                                              \
            NAME##_lanes(left, right, low, high, padded, lowest, t, &largest);                                                             \
        }                                                                                                                                  \
        if (t->odd || !(largest > t->largest)) return;                                                                                     \
        t->largest = largest;                                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                                                               \
            if (fabs((double)n[i] - (double)b[i]) == largest) {                                                                            \
                t->worst = start + (int64_t)i;                                                                                             \
                return;                                                                                                                    \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

ELEMENTS(elements_float, AnyFloat, AnyInt32, uint32_t, fabsf, FLT_MAX)
ELEMENTS(elements_double, AnyDouble, AnyInt64, uint64_t, fabs, DBL_MAX)

static void keys_of_halves(const unsigned char *x, size_t count, int32_t *keys) {
    for (size_t i = 0; i < count; i++) {
        int16_t bits;
        memcpy(&bits, x + 2 * i, 2);
        keys[i] = bits;
    }
}

/* Both tensors have `count` elements of type `code`: float16, bfloat16, float32 or float64. */
static void measure_elements(const unsigned char *n, const unsigned char *b, size_t count, int code, Elements *t) {
    float left[BLOCK], right[BLOCK];
    int32_t low[BLOCK], high[BLOCK];
    int64_t start = 0;
    t->largest = 0;
    t->first = t->worst = -1;
    t->steps = 0;
    t->far = t->odd = 0;
    while (count) {
        size_t part = count < BLOCK ? count : BLOCK;
        if (t->first < 0 && memcmp(n, b, part * ITEMSIZE[code]) == 0) {
            /* nothing differs yet */
        } else if (code == FLOAT64) {
            elements_double((const AnyDouble *)n, (const AnyDouble *)b, (const AnyInt64 *)n, (const AnyInt64 *)b, part, INT64_MIN, start, t);
        } else if (code == FLOAT32) {
            elements_float((const AnyFloat *)n, (const AnyFloat *)b, (const AnyInt32 *)n, (const AnyInt32 *)b, part, INT32_MIN, start, t);
        } else {
            widen(n, part, code, left);
            widen(b, part, code, right);
            keys_of_halves(n, part, low);
            keys_of_halves(b, part, high);
            elements_float(left, right, low, high, part, INT16_MIN, start, t);
        }
        n += part * ITEMSIZE[code];
        b += part * ITEMSIZE[code];
        count -= part;
        start += (int64_t)part;
    }
}

#endif
