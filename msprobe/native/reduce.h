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

#ifndef LOAD_FLOAT16 /* no instruction for it: the C library's function gives the same bits */
TARGET INLINE VARIANT(Doubles) VARIANT(fused)(VARIANT(Doubles) v, VARIANT(Doubles) weight, VARIANT(Doubles) sum) {
    for (size_t k = 0; k < DOUBLES; k++) sum[k] = fma(v[k], weight[k], sum[k]);
    return sum;
}
#endif

/* Elements that are exact in float. LOAD gives a register of them as floats, HALF its lower (0) or upper (1) half as doubles, ONE a
 * single element. The square of a float is exact in double, so a fused multiply-add changes no bit of it; products with weights are
 * not, so they are added by fused operations on every processor. BODY is compiled with and without the projection. */
#define REDUCE_NARROW(NAME, BODY, ELEMENT, LOAD, HALF, ONE)                                                                                \
    TARGET INLINE void BODY(const ELEMENT *x, size_t n, const int projecting, Block *out) {                                                \
        VARIANT(Floats) top[16 / FLOATS], low[16 / FLOATS];                                                                                \
        VARIANT(Doubles) sum[16 / DOUBLES] = {0}, square[16 / DOUBLES] = {0};                                                              \
        Lanes lanes;                                                                                                                       \
        size_t i = 0;                                                                                                                      \
        EACH(p, 16, FLOATS) {                                                                                                              \
            top[p] = (VARIANT(Floats)){0} - INFINITY;                                                                                      \
            low[p] = (VARIANT(Floats)){0} + INFINITY;                                                                                      \
        }                                                                                                                                  \
        EACH_PART(part, n) {                                                                                                               \
            VARIANT(Doubles) turned[16 / DOUBLES] = {0};                                                                                   \
            const double *weight = PLACE;                                                                                                  \
            for (const size_t stop = END_OF_PART(part, n); i + 16 <= stop; i += 16, weight += 16) {                                        \
                EACH(p, 16, FLOATS) {                                                                                                      \
                    const ELEMENT *at = x + i + p * FLOATS;                                                                                \
                    VARIANT(Floats) v = LOAD(at);                                                                                          \
                    VARIANT(Doubles) lower = HALF(at, v, 0), upper = HALF(at, v, 1);                                                       \
                    top[p] = HIGHER(v, top[p]);                                                                                            \
                    low[p] = LOWER(v, low[p]);                                                                                             \
                    sum[2 * p] = ADD(lower, sum[2 * p]);                                                                                   \
                    sum[2 * p + 1] = ADD(upper, sum[2 * p + 1]);                                                                           \
                    square[2 * p] = ADD_SQUARE(lower, square[2 * p]);                                                                      \
                    square[2 * p + 1] = ADD_SQUARE(upper, square[2 * p + 1]);                                                              \
                    if (projecting) turned[2 * p] = ADD_PRODUCT(lower, WEIGHTS(weight, 2 * p), turned[2 * p]);                                                       \
                    if (projecting) turned[2 * p + 1] = ADD_PRODUCT(upper, WEIGHTS(weight, 2 * p + 1), turned[2 * p + 1]);                                               \
                }                                                                                                                          \
            }                                                                                                                              \
            memcpy(lanes.turned[part], turned, sizeof turned);                                                                             \
        }                                                                                                                                  \
        memcpy(lanes.top, top, sizeof lanes.top);                                                                                          \
        memcpy(lanes.low, low, sizeof lanes.low);                                                                                          \
        memcpy(lanes.sum, sum, sizeof lanes.sum);                                                                                          \
        memcpy(lanes.square, square, sizeof lanes.square);                                                                                 \
        for (size_t k = 0; i + k < n; k++) add_to_lane(&lanes, i, k, ONE(x[i + k]));                                                       \
        join_lanes(&lanes, n, out);                                                                                                        \
    }                                                                                                                                      \
    TARGET static void NAME(const ELEMENT *x, size_t n, Block *out) {                                                                      \
        if (out->projecting) BODY(x, n, 1, out);                                                                                           \
        else BODY(x, n, 0, out);                                                                                                           \
    }

#define LOAD_FLOATS(at) (*(const VARIANT(Floats) *)(at))
#define HALF_AT(at, v, half) LOAD_WIDENED((at) + (half) * DOUBLES)
#define ITSELF(element) (element)
REDUCE_NARROW(VARIANT(reduce_float), VARIANT(read_float), float, LOAD_FLOATS, HALF_AT, ITSELF)
#ifdef LOAD_FLOAT16
REDUCE_NARROW(VARIANT(reduce_float16), VARIANT(read_float16), uint16_t, LOAD_FLOAT16, HALF_OF, float16_to_float)
#endif
#ifdef WIDENED
/* bfloat16 is the upper half of float: of two neighbours in one 32-bit word a shift gives the even, a mask the odd element. So 8 even and
 * 8 odd elements are taken at a time, and the lanes are put into the order of the elements at the end. */
TARGET INLINE void VARIANT(read_bfloat16)(const uint16_t *x, size_t n, const int projecting, Block *out) {
    __m256 top[2], low[2];
    VARIANT(Doubles) sum[2][8 / DOUBLES] = {0}, square[2][8 / DOUBLES] = {0};
    Lanes lanes;
    size_t i = 0;
    top[0] = top[1] = _mm256_set1_ps(-INFINITY);
    low[0] = low[1] = _mm256_set1_ps(INFINITY);
    EACH_PART(part, n) {
        VARIANT(Doubles) turned[2][8 / DOUBLES] = {0};
        const double *weight = PAIRED_PLACE;
        for (const size_t stop = END_OF_PART(part, n); i + 16 <= stop; i += 16, weight += 16) {
            __m256i words = _mm256_loadu_si256((const __m256i *)(x + i));
            __m256 v[2] = {(__m256)_mm256_slli_epi32(words, 16), (__m256)_mm256_and_si256(words, _mm256_set1_epi32(-65536))};
            EACH(odd, 2, 1) {
                top[odd] = _mm256_max_ps(v[odd], top[odd]);
                low[odd] = _mm256_min_ps(v[odd], low[odd]);
                EACH(p, 8, DOUBLES) {
                    VARIANT(Doubles) wide = WIDENED(v[odd], p);
                    sum[odd][p] = ADD(wide, sum[odd][p]);
                    square[odd][p] = ADD_SQUARE(wide, square[odd][p]);
                    if (projecting) turned[odd][p] = ADD_PRODUCT(wide, WEIGHTS(weight + 8 * odd, p), turned[odd][p]);
                }
            }
        }
        for (size_t k = 0; k < 16; k++) memcpy(lanes.turned[part] + k, (char *)&turned[k % 2] + k / 2 * 8, 8);
    }
    for (size_t k = 0; k < 16; k++) {
        memcpy(lanes.top + k, (char *)&top[k % 2] + k / 2 * 4, 4);
        memcpy(lanes.low + k, (char *)&low[k % 2] + k / 2 * 4, 4);
        memcpy(lanes.sum + k, (char *)&sum[k % 2] + k / 2 * 8, 8);
        memcpy(lanes.square + k, (char *)&square[k % 2] + k / 2 * 8, 8);
    }
    for (size_t k = 0; i + k < n; k++) add_to_lane(&lanes, i, k, bfloat16_to_float(x[i + k]));
    join_lanes(&lanes, n, out);
}

TARGET static void VARIANT(reduce_bfloat16)(const uint16_t *x, size_t n, Block *out) {
    if (out->projecting) VARIANT(read_bfloat16)(x, n, 1, out);
    else VARIANT(read_bfloat16)(x, n, 0, out);
}
#endif

/* The three reductions of 64-bit elements differ in their types, in the values that lose every comparison and in the multiplier. */
#define REDUCE_WIDE(NAME, BODY, SCALAR, VECTOR, LOWEST, HIGHEST, SCALE, MAX, MIN)                                                                \
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
#undef REDUCE_NARROW
#undef LOAD_FLOATS
#undef HALF_AT
#undef HALF_OF
#undef ITSELF
#undef LOAD_FLOAT16
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
