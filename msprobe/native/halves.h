/* One element of the two 16-bit float formats as a float, exactly: IEEE 754 binary16 and bfloat16. */
#ifndef MSPROBE_HALVES_H
#define MSPROBE_HALVES_H

#include <stdint.h>
#include <string.h>

static inline float bfloat16_to_float(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline float float16_to_float(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, rest = x & 0x7fff;
    uint32_t normal = (rest << 13) + (112u << 23); /* exponent bias 15 -> 127 */
    float tiny = (float)(int32_t)rest * 0x1p-24f, value;
    uint32_t bits, tiny_bits;
    memcpy(&tiny_bits, &tiny, 4);
    normal += rest >= 0x7c00 ? 112u << 23 : 0; /* infinity and NaN keep an all-ones exponent */
    bits = (rest < 0x0400 ? tiny_bits : normal) | sign;
    memcpy(&value, &bits, 4);
    return value;
}

#endif
