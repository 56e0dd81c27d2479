/* The weights of the order-sensitive statistic, defined in msprobe.core.tensors.projection: one for each place in a block of elements,
 * one for each block. */
#ifndef MSPROBE_WEIGHTS_H
#define MSPROBE_WEIGHTS_H

#include <stdint.h>

#define BLOCK 2048

static double PLACE[BLOCK] __attribute__((aligned(64)));        /* t(j); filled once when the module is loaded */
static double PAIRED_PLACE[BLOCK] __attribute__((aligned(64))); /* the same, of 16 neighbours the even ones first */

static double weight_of(uint64_t k) {
    uint64_t u = (k + 1) * UINT64_C(0x9E3779B97F4A7C15);
    u = (u ^ (u >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    u = (u ^ (u >> 27)) * UINT64_C(0x94D049BB133111EB);
    u ^= u >> 31;
    double size = 0.5 + (double)(u >> 12) * 0x1p-53;
    return u & 1 ? -size : size;
}

static double block_weight(uint64_t block) { return weight_of((UINT64_C(1) << 32) + block); }

static void fill_weights(void) {
    for (uint64_t j = 0; j < BLOCK; j++) PLACE[j] = weight_of(j);
    for (uint64_t j = 0; j < BLOCK; j++) PAIRED_PLACE[j / 16 * 16 + j % 2 * 8 + j % 16 / 2] = PLACE[j];
}

#endif
