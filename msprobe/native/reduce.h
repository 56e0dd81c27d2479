/* Body of the block reductions, included once per instruction set by blocks.h, which defines TARGET (a function attribute),
 * VARIANT (a name) and WIDTH (bytes of one register), and may define the float operations that compilers translate badly.
 *
 * A compiler attribute that clones functions would not do: gcc lowers vector types, to scalars where the width does not fit, before it
 * clones. Whatever the width, a block is summed in 16 lanes (float) or 8 lanes (double, integers), so results do not depend on it.
 */
typedef float VARIANT(Floats) __attribute__((vector_size(WIDTH), aligned(1), may_alias));
typedef int32_t VARIANT(FloatBits) __attribute__((vector_size(WIDTH)));
typedef float VARIANT(HalfFloats) __attribute__((vector_size(WIDTH / 2), aligned(1), may_alias));
typedef double VARIANT(Doubles) __attribute__((vector_size(WIDTH), aligned(1), may_alias));
typedef int64_t VARIANT(Signed) __attribute__((vector_size(WIDTH), aligned(1), may_alias));
typedef uint64_t VARIANT(Unsigned) __attribute__((vector_size(WIDTH), aligned(1), may_alias));

#define FLOATS (WIDTH / 4)
#define DOUBLES (WIDTH / 8)
#define EACH(p, lanes, in_one) _Pragma("GCC unroll 8") for (size_t p = 0; p < (lanes) / (in_one); p++)
#define INLINE static inline __attribute__((always_inline))
#define WEIGHTS(weight, p) (*(const VARIANT(Doubles) *)((weight) + (p) * DOUBLES))
#define PICK(TYPE, BITS, mask, yes, no) ((TYPE)(((BITS)(yes) & (mask)) | ((BITS)(no) & ~(mask))))

#ifndef LOAD_WIDENED
#define HIGHER(v, top) PICK(VARIANT(Floats), VARIANT(FloatBits), (v) > (top), v, top)
#define LOWER(v, low) PICK(VARIANT(Floats), VARIANT(FloatBits), (v) < (low), v, low)
#define LOAD_WIDENED(at) __builtin_convertvector(*(const VARIANT(HalfFloats) *)(at), VARIANT(Doubles))
#define ADD(v, sum) ((sum) + (v))
#define ADD_SQUARE(v, square) ((square) + (v) * (v))
#define ADD_PRODUCT(v, weight, sum) VARIANT(fused)(v, weight, sum)
#endif

#ifndef WIDENED /* no instruction for it: the C library's function gives the same bits */
TARGET INLINE VARIANT(Doubles) VARIANT(fused)(VARIANT(Doubles) v, VARIANT(Doubles) weight, VARIANT(Doubles) sum) {
    for (size_t k = 0; k < DOUBLES; k++) sum[k] = fma(v[k], weight[k], sum[k]);
    return sum;
}
#endif

/* The square of a float is exact in double, so a fused multiply-add changes no bit of it; products with weights are not, so they are
 * added by fused operations on every processor. The body is compiled with and without the projection. */
TARGET INLINE void VARIANT(read_float)(const float *x, size_t n, const int projecting, Block *out) {
    VARIANT(Floats) top[16 / FLOATS], low[16 / FLOATS];
    VARIANT(Doubles) sum[16 / DOUBLES] = {0}, square[16 / DOUBLES] = {0};
    Lanes lanes;
    size_t i = 0;
    EACH(p, 16, FLOATS) {
        top[p] = (VARIANT(Floats)){0} - INFINITY;
        low[p] = (VARIANT(Floats)){0} + INFINITY;
    }
    EACH_PART(part, n) {
        VARIANT(Doubles) turned[16 / DOUBLES] = {0};
        const double *weight = PLACE;
        for (const size_t stop = END_OF_PART(part, n); i + 16 <= stop; i += 16, weight += 16) {
            EACH(p, 16, FLOATS) {
                const float *at = x + i + p * FLOATS;
                VARIANT(Floats) v = *(const VARIANT(Floats) *)at;
                top[p] = HIGHER(v, top[p]);
                low[p] = LOWER(v, low[p]);
                VARIANT(Doubles) lower = LOAD_WIDENED(at), upper = LOAD_WIDENED(at + DOUBLES);
                sum[2 * p] = ADD(lower, sum[2 * p]);
                sum[2 * p + 1] = ADD(upper, sum[2 * p + 1]);
                square[2 * p] = ADD_SQUARE(lower, square[2 * p]);
                square[2 * p + 1] = ADD_SQUARE(upper, square[2 * p + 1]);
                if (projecting) turned[2 * p] = ADD_PRODUCT(lower, WEIGHTS(weight, 2 * p), turned[2 * p]);
                if (projecting) turned[2 * p + 1] = ADD_PRODUCT(upper, WEIGHTS(weight, 2 * p + 1), turned[2 * p + 1]);
            }
        }
        memcpy(lanes.turned[part], turned, sizeof turned);
    }
    memcpy(lanes.top, top, sizeof lanes.top);
    memcpy(lanes.low, low, sizeof lanes.low);
    memcpy(lanes.sum, sum, sizeof lanes.sum);
    memcpy(lanes.square, square, sizeof lanes.square);
    for (size_t k = 0; i + k < n; k++) add_to_lane(&lanes, i, k, x[i + k]);
    join_lanes(&lanes, n, out);
}

TARGET static void VARIANT(reduce_float)(const float *x, size_t n, Block *out) {
    if (out->projecting) VARIANT(read_float)(x, n, 1, out);
    else VARIANT(read_float)(x, n, 0, out);
}

#ifdef WIDENED
/* There is an instruction for the least of unsigned numbers: `mask` turns others around into these. */
TARGET INLINE uint16_t VARIANT(join_extremes)(__m256i v, short mask) {
    v = _mm256_xor_si256(v, _mm256_set1_epi16(mask));
    __m128i least = _mm_minpos_epu16(_mm_min_epu16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
    return (uint16_t)(_mm_cvtsi128_si32(least) ^ mask);
}

/* Two-byte floats, 16 at a time: SPLIT makes two registers of 8 floats of them, maybe in another order; WEIGHT has the weights in that
 * order, and element k of the 16 is lane LANE(k) of register REGISTER(k). At the end the lanes are put into the order of the elements.
 *
 * Their bits are a sign and a magnitude, so integer instructions find the extremes, of 16 at once: the signed maximum is the largest
 * element without a sign, the unsigned one the smallest element with one, and where all have one sign the unsigned minimum is the other
 * extreme. What a NaN does to them means nothing: the sum of squares is NaN then. One half of the sums takes the units that add, the
 * other half those that multiply and add, which have the squares. */
#define REDUCE_HALVES(NAME, BODY, SPLIT, WEIGHT, REGISTER, LANE, ONE)                                                                      \
    TARGET INLINE void BODY(const uint16_t *x, size_t n, const int projecting, Block *out) {                                               \
        __m256i top = _mm256_set1_epi16(-32768), low = _mm256_setzero_si256(), least = _mm256_set1_epi16(-1);                              \
        VARIANT(Doubles) sum[2][8 / DOUBLES] = {0}, square[2][8 / DOUBLES] = {0};                                                          \
        Lanes lanes;                                                                                                                       \
        size_t i = 0;                                                                                                                      \
        EACH_PART(part, n) {                                                                                                               \
            VARIANT(Doubles) turned[2][8 / DOUBLES] = {0};                                                                                 \
            const double *weight = WEIGHT;                                                                                                 \
            for (const size_t stop = END_OF_PART(part, n); i + 16 <= stop; i += 16, weight += 16) {                                        \
                __m256i bits = _mm256_loadu_si256((const __m256i *)(x + i));                                                               \
                __m256 v[2] = SPLIT(bits);                                                                                                 \
                top = _mm256_max_epi16(bits, top);                                                                                         \
                low = _mm256_max_epu16(bits, low);                                                                                         \
                least = _mm256_min_epu16(bits, least);                                                                                     \
                EACH(p, 8, DOUBLES) {                                                                                                      \
                    VARIANT(Doubles) first = WIDENED(v[0], p), second = WIDENED(v[1], p);                                                  \
                    sum[0][p] += first;                                                                                                    \
                    sum[1][p] = ADD(second, sum[1][p]);                                                                                    \
                    square[0][p] = ADD_SQUARE(first, square[0][p]);                                                                        \
                    square[1][p] = ADD_SQUARE(second, square[1][p]);                                                                       \
                    if (projecting) turned[0][p] = ADD_PRODUCT(first, WEIGHTS(weight, p), turned[0][p]);                                   \
                    if (projecting) turned[1][p] = ADD_PRODUCT(second, WEIGHTS(weight + 8, p), turned[1][p]);                              \
                }                                                                                                                          \
            }                                                                                                                              \
            for (size_t k = 0; k < 16; k++) memcpy(lanes.turned[part] + k, (char *)&turned[REGISTER(k)] + LANE(k) * 8, 8);                 \
        }                                                                                                                                  \
        for (size_t k = 0; k < 16; k++) {                                                                                                  \
            memcpy(lanes.sum + k, (char *)&sum[REGISTER(k)] + LANE(k) * 8, 8);                                                             \
            memcpy(lanes.square + k, (char *)&square[REGISTER(k)] + LANE(k) * 8, 8);                                                       \
        }                                                                                                                                  \
        const uint16_t nearest = VARIANT(join_extremes)(least, 0);                                                                         \
        uint16_t highest = VARIANT(join_extremes)(top, 0x7fff), lowest = VARIANT(join_extremes)(low, -1);                                  \
        if (highest >= 0x8000) highest = nearest;                                                                                          \
        if (lowest < 0x8000) lowest = nearest;                                                                                             \
        for (size_t k = 0; k < 16; k++) {                                                                                                  \
            lanes.top[k] = i ? ONE(highest) : -INFINITY;                                                                                   \
            lanes.low[k] = i ? ONE(lowest) : INFINITY;                                                                                     \
        }                                                                                                                                  \
        for (size_t k = 0; i + k < n; k++) add_to_lane(&lanes, i, k, ONE(x[i + k]));                                                       \
        join_lanes(&lanes, n, out);                                                                                                        \
    }                                                                                                                                      \
    TARGET static void NAME(const uint16_t *x, size_t n, Block *out) {                                                                     \
        if (out->projecting) BODY(x, n, 1, out);                                                                                           \
        else BODY(x, n, 0, out);                                                                                                           \
    }

/* bfloat16 is the upper half of float: of two neighbours in one 32-bit word a shift gives the even, a mask the odd element. */
#define SPLIT_BFLOAT16(bits) {(__m256)_mm256_slli_epi32(bits, 16), (__m256)_mm256_and_si256(bits, _mm256_set1_epi32(-65536))}
#define SPLIT_FLOAT16(bits) {_mm256_cvtph_ps(_mm256_castsi256_si128(bits)), _mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))}
#define PARITY(k) ((k) % 2)
#define PAIR(k) ((k) / 2)
#define UPPER(k) ((k) / 8)
#define PLACE_IN_HALF(k) ((k) % 8)
REDUCE_HALVES(VARIANT(reduce_bfloat16), VARIANT(read_bfloat16), SPLIT_BFLOAT16, PAIRED_PLACE, PARITY, PAIR, bfloat16_to_float)
REDUCE_HALVES(VARIANT(reduce_float16), VARIANT(read_float16), SPLIT_FLOAT16, PLACE, UPPER, PLACE_IN_HALF, float16_to_float)
#undef REDUCE_HALVES
#undef SPLIT_BFLOAT16
#undef SPLIT_FLOAT16
#undef PARITY
#undef PAIR
#undef UPPER
#undef PLACE_IN_HALF
#endif

/* The three reductions of 64-bit elements differ in their types, in the values that lose every comparison and in the multiplier. */
#define REDUCE_WIDE(NAME, BODY, SCALAR, VECTOR, LOWEST, HIGHEST, SCALE, MAX, MIN)                                                          \
    TARGET INLINE void BODY(const SCALAR *x, size_t n, double scale, const int projecting, Block *out) {                                   \
        VECTOR top[8 / DOUBLES], low[8 / DOUBLES];                                                                                         \
        VARIANT(Doubles) sum[8 / DOUBLES] = {0}, square[8 / DOUBLES] = {0}, turned[8 / DOUBLES] = {0};                                     \
        SCALAR tops[8], lows[8];                                                                                                           \
        double sums[8], squares[8], turns[8];                                                                                              \
        size_t i = 0;                                                                                                                      \
        (void)scale;                                                                                                                       \
        EACH(p, 8, DOUBLES) {                                                                                                              \
            top[p] = (VECTOR){0} + LOWEST;                                                                                                 \
            low[p] = (VECTOR){0} + HIGHEST;                                                                                                \
        }                                                                                                                                  \
        for (; i + 8 <= n; i += 8) {                                                                                                       \
            EACH(p, 8, DOUBLES) {                                                                                                          \
                VECTOR v = *(const VECTOR *)(x + i + p * DOUBLES) SCALE;                                                                   \
                VARIANT(Doubles) d = __builtin_convertvector(v, VARIANT(Doubles));                                                         \
                top[p] = PICK(VECTOR, VARIANT(Signed), (VARIANT(Signed))(v > top[p]), v, top[p]);                                          \
                low[p] = PICK(VECTOR, VARIANT(Signed), (VARIANT(Signed))(v < low[p]), v, low[p]);                                          \
                sum[p] += d;                                                                                                               \
                square[p] += d * d;                                                                                                        \
                if (projecting) turned[p] += d * WEIGHTS(PLACE + i, p);                                                                    \
            }                                                                                                                              \
        }                                                                                                                                  \
        memcpy(tops, top, sizeof tops);                                                                                                    \
        memcpy(lows, low, sizeof lows);                                                                                                    \
        memcpy(sums, sum, sizeof sums);                                                                                                    \
        memcpy(squares, square, sizeof squares);                                                                                           \
        memcpy(turns, turned, sizeof turns);                                                                                               \
        for (size_t k = 0; i + k < n; k++) {                                                                                               \
            SCALAR v = x[i + k] SCALE;                                                                                                     \
            tops[k] = v > tops[k] ? v : tops[k];                                                                                           \
            lows[k] = v < lows[k] ? v : lows[k];                                                                                           \
            sums[k] += (double)v;                                                                                                          \
            squares[k] += (double)v * (double)v;                                                                                           \
            turns[k] += (double)v * PLACE[i + k];                                                                                          \
        }                                                                                                                                  \
        for (size_t k = 1; k < 8; k++) {                                                                                                   \
            tops[0] = tops[k] > tops[0] ? tops[k] : tops[0];                                                                               \
            lows[0] = lows[k] < lows[0] ? lows[k] : lows[0];                                                                               \
        }                                                                                                                                  \
        MAX = tops[0];                                                                                                                     \
        MIN = lows[0];                                                                                                                     \
        out->sum = add_lanes(sums);                                                                                                        \
        out->sumsq = add_lanes(squares);                                                                                                   \
        out->turned[0] = add_lanes(turns);                                                                                                 \
    }                                                                                                                                      \
    TARGET static void NAME(const SCALAR *x, size_t n, double scale, Block *out) {                                                         \
        if (out->projecting) BODY(x, n, scale, 1, out);                                                                                    \
        else BODY(x, n, scale, 0, out);                                                                                                    \
    }

REDUCE_WIDE(VARIANT(reduce_double), VARIANT(read_double), double, VARIANT(Doubles), -INFINITY, INFINITY, *scale, out->max, out->min)
REDUCE_WIDE(VARIANT(reduce_int64), VARIANT(read_int64), int64_t, VARIANT(Signed), INT64_MIN, INT64_MAX, , out->imax, out->imin)
REDUCE_WIDE(VARIANT(reduce_uint64), VARIANT(read_uint64), uint64_t, VARIANT(Unsigned), 0, UINT64_MAX, , out->imax, out->imin)

#undef REDUCE_WIDE
#undef ADD
#undef ADD_SQUARE
#undef ADD_PRODUCT
#undef LOAD_WIDENED
#undef WIDENED
#undef LOWER
#undef HIGHER
#undef PICK
#undef INLINE
#undef WEIGHTS
#undef EACH
#undef DOUBLES
#undef FLOATS
#undef WIDTH
#undef TARGET
#undef VARIANT
