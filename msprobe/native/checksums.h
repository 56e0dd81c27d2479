/* CRC-32 (reflected polynomial 0xEDB88320, as zlib), the XOR of little-endian 64-bit words over a span of bytes, and a sum
 * over its elements that does not know their order.
 *
 * The fast CRC folds 64 bytes at a time with carry-less multiplication: V. Gopal et al., "Fast CRC Computation for Generic Polynomials
 * Using PCLMULQDQ Instruction", Intel 2009; the constants are x^k mod P for the fold distances named beside them. Without that
 * instruction a table of 256 entries is used; callers that care ask FAST_CRC32 and prefer zlib then.
 */
#ifndef MSPROBE_CHECKSUMS_H
#define MSPROBE_CHECKSUMS_H

#include "blocks.h"

static uint32_t CRC_TABLE[256];
static int fast_crc = 0, wide_crc = 0;

static void prepare_crc(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t value = b;
        for (int k = 0; k < 8; k++) value = value & 1 ? (value >> 1) ^ 0xEDB88320u : value >> 1;
        CRC_TABLE[b] = value;
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    fast_crc = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    wide_crc = fast_crc && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
#endif
}

static uint32_t crc_bytes(const unsigned char *p, size_t n, uint32_t state) {
    while (n--) state = CRC_TABLE[(state ^ *p++) & 0xff] ^ (state >> 8);
    return state;
}

#if defined(__x86_64__)
#define FOLD(value, by)                                                                                                                    \
    _mm_xor_si128(_mm_clmulepi64_si128(value, by, 0x00), _mm_clmulepi64_si128(value, by, 0x11))
#define LOAD(at) _mm_loadu_si128((const __m128i *)(at))

#define FOLD_WIDE(value, by)                                                                                                               \
    _mm512_xor_si512(_mm512_clmulepi64_epi128(value, by, 0x00), _mm512_clmulepi64_epi128(value, by, 0x11))
#define LOAD_WIDE(at) _mm512_loadu_si512((const void *)(at))

/* Folds n >= 256 bytes, a multiple of 256, into 64 that have the same remainder: the same method with registers of 64 bytes. */
__attribute__((target("avx512f,vpclmulqdq"))) static void fold_wide(const unsigned char *p, size_t n, uint32_t state, unsigned char *out) {
    const __m512i by2048 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x01322d1430, 0x011542778a));
    const __m512i by512 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x01c6e41596, 0x0154442bd4));
    __m512i a = _mm512_xor_si512(LOAD_WIDE(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    __m512i b = LOAD_WIDE(p + 64), c = LOAD_WIDE(p + 128), d = LOAD_WIDE(p + 192);
    for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
        a = _mm512_xor_si512(FOLD_WIDE(a, by2048), LOAD_WIDE(p));
        b = _mm512_xor_si512(FOLD_WIDE(b, by2048), LOAD_WIDE(p + 64));
        c = _mm512_xor_si512(FOLD_WIDE(c, by2048), LOAD_WIDE(p + 128));
        d = _mm512_xor_si512(FOLD_WIDE(d, by2048), LOAD_WIDE(p + 192));
    }
    b = _mm512_xor_si512(FOLD_WIDE(a, by512), b);
    c = _mm512_xor_si512(FOLD_WIDE(b, by512), c);
    d = _mm512_xor_si512(FOLD_WIDE(c, by512), d);
    _mm512_storeu_si512((void *)out, d);
}

/* n >= 64 and a multiple of 16; state is the running (inverted) register. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t crc_folded(const unsigned char *p, size_t n, uint32_t state) {
    const __m128i by512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by64 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i low32 = _mm_setr_epi32(-1, 0, -1, 0);
    unsigned char folded[64];
    __m128i a, b, c, d;
    if (wide_crc && n >= 512) {
        size_t whole = n & ~(size_t)255;
        fold_wide(p, whole, state, folded);
        a = LOAD(folded), b = LOAD(folded + 16), c = LOAD(folded + 32), d = LOAD(folded + 48);
        p += whole - 64;
        n -= whole - 64;
    } else {
        a = _mm_xor_si128(LOAD(p), _mm_cvtsi32_si128((int)state));
        b = LOAD(p + 16), c = LOAD(p + 32), d = LOAD(p + 48);
    }
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        a = _mm_xor_si128(FOLD(a, by512), LOAD(p));
        b = _mm_xor_si128(FOLD(b, by512), LOAD(p + 16));
        c = _mm_xor_si128(FOLD(c, by512), LOAD(p + 32));
        d = _mm_xor_si128(FOLD(d, by512), LOAD(p + 48));
    }
    a = _mm_xor_si128(FOLD(a, by128), b);
    a = _mm_xor_si128(FOLD(a, by128), c);
    a = _mm_xor_si128(FOLD(a, by128), d);
    for (; n >= 16; p += 16, n -= 16) a = _mm_xor_si128(FOLD(a, by128), LOAD(p));
    /* 128 -> 64 bits, then 64 -> 32 by Barrett reduction */
    b = _mm_clmulepi64_si128(a, by128, 0x10);
    a = _mm_xor_si128(_mm_srli_si128(a, 8), b);
    b = _mm_srli_si128(a, 4);
    a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low32), by64, 0x00), b);
    b = _mm_clmulepi64_si128(_mm_and_si128(a, low32), barrett, 0x10);
    b = _mm_clmulepi64_si128(_mm_and_si128(b, low32), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, b), 1);
}
#else
static uint32_t crc_folded(const unsigned char *p, size_t n, uint32_t state) { return crc_bytes(p, n, state); }
#endif

/* Continues `crc` (0 at the start) over n bytes, with zlib's conventions. */
static uint32_t crc_extend(uint32_t crc, const void *data, size_t n) {
    const unsigned char *p = data;
    uint32_t state = ~crc;
    if (fast_crc && n >= 64) {
        size_t whole = n & ~(size_t)15;
        state = crc_folded(p, whole, state);
        p += whole;
        n -= whole;
    }
    return ~crc_bytes(p, n, state);
}

CLONES static uint64_t xor_words(const unsigned char *p, size_t n) {
    uint64_t words[9] = {0}, result = 0;
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t row[8];
        memcpy(row, p + i, 64);
        for (int k = 0; k < 8; k++) words[k] ^= row[k];
    }
    for (; i + 8 <= n; i += 8) {
        memcpy(&words[8], p + i, 8);
        words[0] ^= words[8];
    }
    words[8] = 0; /* zero padding of the last word */
    memcpy(&words[8], p + i, n - i);
    for (int k = 0; k < 9; k++) result ^= words[k];
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    result = __builtin_bswap64(result);
#endif
    return result;
}

#define MIX 0xFF51AFD7ED558CCDull /* of the finalizer of MurmurHash3, as in msprobe/setup_check/collection/content_hash.py */
#define MIXED_SUM(name, word_type)                                                                                                         \
    CLONES static uint64_t name(const unsigned char *p, size_t n) {                                                                        \
        uint64_t sum = 0;                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                                                   \
            word_type word;                                                                                                                \
            memcpy(&word, p + i * sizeof word, sizeof word);                                                                               \
            uint64_t mixed = (uint64_t)word * MIX;                                                                                         \
            mixed = (mixed ^ (mixed >> 33)) * MIX;                                                                                         \
            sum += mixed ^ (mixed >> 33);                                                                                                  \
        }                                                                                                                                  \
        return sum;                                                                                                                        \
    }
MIXED_SUM(mixed_sum_1, uint8_t)
MIXED_SUM(mixed_sum_2, uint16_t)
MIXED_SUM(mixed_sum_4, uint32_t)
MIXED_SUM(mixed_sum_8, uint64_t)

static uint64_t mixed_sum(const unsigned char *p, size_t elements, size_t width) {
    if (width == 1) return mixed_sum_1(p, elements);
    if (width == 2) return mixed_sum_2(p, elements);
    return width == 4 ? mixed_sum_4(p, elements) : mixed_sum_8(p, elements);
}

#endif
