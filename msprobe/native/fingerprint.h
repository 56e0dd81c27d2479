/* A fingerprint of a tensor from a few elements: cheap to take, and another one when all elements have been written.
 *
 * PROBES elements are read, the first and the last among them, the others one from each of as many equal parts, at a place in the part
 * that differs from part to part, so that no stride of the tensor meets only its padding. Their bits are mixed by multiplication
 * (Fibonacci hashing: D. Knuth, The Art of Computer Programming 3, 6.4). It says nothing about elements that are not read.
 */
#ifndef MSPROBE_FINGERPRINT_H
#define MSPROBE_FINGERPRINT_H

#include "blocks.h"

#define PROBES 64
#define GOLDEN 0x9E3779B97F4A7C15u

static uint64_t mix(uint64_t state, uint64_t word) {
    state = (state ^ word) * GOLDEN;
    return state ^ state >> 29;
}

static uint64_t take_fingerprint(const unsigned char *x, size_t n, size_t itemsize) {
    uint64_t state = n, jitter = 1;
    for (size_t i = 0; n && i < PROBES; i++) {
        size_t begin = n / PROBES * i + n % PROBES * i / PROBES, end = n / PROBES * (i + 1) + n % PROBES * (i + 1) / PROBES;
        size_t index = i == 0 ? 0 : i == PROBES - 1 ? n - 1 : end > begin ? begin + (jitter >> 32) % (end - begin) : begin;
        uint64_t words[2] = {0, 0};
        memcpy(words, x + index * itemsize, itemsize);
        state = mix(mix(state, words[0]), words[1]);
        jitter = jitter * 6364136223846793005u + 1442695040888963407u;
    }
    return state;
}

#endif
