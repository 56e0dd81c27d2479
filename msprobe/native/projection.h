/* The order-sensitive statistic of msprobe.core.tensors.projection: a sum with a fixed pseudo-random weight per place. */
#ifndef MSPROBE_PROJECTION_H
#define MSPROBE_PROJECTION_H

#include "decode.h"

static double PLACE[BLOCK]; /* weights within a block; filled once when the module is loaded */

static double weight_of(uint64_t k) {
    uint64_t u = (k + 1) * UINT64_C(0x9E3779B97F4A7C15);
    u = (u ^ (u >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    u = (u ^ (u >> 27)) * UINT64_C(0x94D049BB133111EB);
    u ^= u >> 31;
    double size = 0.5 + (double)(u >> 12) * 0x1p-53;
    return u & 1 ? -size : size;
}

static void fill_places(void) {
    for (uint64_t j = 0; j < BLOCK; j++) PLACE[j] = weight_of(j);
}

#define PROJECT(NAME, TYPE)                                                                                                                \
    CLONES static double NAME(const TYPE *x, size_t n) {                                                                                   \
        double sums[16] = {0};                                                                                                             \
        size_t i = 0;                                                                                                                      \
        for (; i + 16 <= n; i += 16) {                                                                                                     \
            for (size_t l = 0; l < 16; l++) sums[l] += (double)x[i + l] * PLACE[i + l];                                                    \
        }                                                                                                                                  \
        for (size_t l = 0; i + l < n; l++) sums[l] += (double)x[i + l] * PLACE[i + l];                                                     \
        return add_lanes(sums) + add_lanes(sums + 8);                                                                                      \
    }

PROJECT(project_float, float)
PROJECT(project_double, double)
PROJECT(project_int64, int64_t)
PROJECT(project_uint64, uint64_t)

static double project_block(const unsigned char *x, size_t n, int code) {
    double room[BLOCK] __attribute__((aligned(64)));
    if (code == FLOAT32) return project_float((const float *)x, n);
    if (code == FLOAT64) return project_double((const double *)x, n);
    if (code == INT64) return project_int64((const int64_t *)x, n);
    if (code == UINT64) return project_uint64((const uint64_t *)x, n);
    return widen(x, n, code, room) ? project_float((const float *)room, n) : project_double(room, n);
}

static double measure_projection(const unsigned char *x, size_t n, int code) {
    double sum = 0, rest = 0;
    for (uint64_t block = 0; n; block++) {
        size_t part = n < BLOCK ? n : BLOCK;
        double value = project_block(x, part, code) * weight_of((UINT64_C(1) << 32) + block), next = sum + value;
        if (isfinite(next)) rest += fabs(sum) >= fabs(value) ? (sum - next) + value : (value - next) + sum;
        sum = next;
        x += part * ITEMSIZE[code];
        n -= part;
    }
    return isfinite(sum) ? sum + rest : sum;
}

#endif
