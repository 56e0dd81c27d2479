/* The elements of a tensor in row-major order, whatever the order in which they lie in memory.
 *
 * A reader gives block after block. Where the last dimension is dense, a block is made of runs that are copied. Where another one is (a
 * transposed matrix), reading element by element would fetch a line of the cache for each: then a panel of some rows is turned around
 * first, from whole lines.
 */
#ifndef MSPROBE_STRIDED_H
#define MSPROBE_STRIDED_H

#include <stdlib.h>

#include "decode.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define MOST_DIMS 16
#define LINE 64             /* bytes: a panel has so many rows that each line is used whole */
#define MOST_PANEL (1 << 22) /* bytes */
#define TILE 32

typedef struct {
    const unsigned char *at;
    size_t itemsize;
    int dims;
    int64_t length[MOST_DIMS], stride[MOST_DIMS]; /* strides in bytes; no dimension of length 1, neighbours joined where possible */
    int64_t index[MOST_DIMS];                     /* of the next element */
    int dense;                                    /* the dimension of neighbours in memory; -1 for none */
    int64_t inner;                                /* the number of elements below one index of the dense dimension */
    unsigned char *panel;
    int64_t rows, pitch, filled, row, column; /* rows of the panel, bytes from one to the next, rows filled; the next element in it */
} Reader;

/* Returns the number of elements; -1 for more dimensions than are read, or an element that is repeated so often that only its
 * repetitions would be read. Strides count elements. */
static int64_t open_reader(Reader *r, const unsigned char *at, size_t itemsize, int dims, const int64_t *lengths, const int64_t *strides,
                           int64_t most_repeated) {
    int64_t count = 1;
    int repeated = 0;
    r->at = at;
    r->itemsize = itemsize;
    r->dims = 0;
    r->panel = NULL;
    for (int d = 0; d < dims; d++) {
        int64_t length = lengths[d], stride = strides[d] * (int64_t)itemsize;
        count *= length;
        if (length == 1) continue;
        repeated |= stride == 0;
        int last = r->dims - 1;
        if (last >= 0 && r->stride[last] == stride * length) {
            r->length[last] *= length;
            r->stride[last] = stride;
            continue;
        }
        if (r->dims == MOST_DIMS) return -1;
        r->length[r->dims] = length;
        r->stride[r->dims] = stride;
        r->index[r->dims++] = 0;
    }
    return repeated && count >= most_repeated ? -1 : count;
}

/* Returns whether the elements fill their memory without gaps, in whatever order. */
static int fills_memory(const Reader *r) {
    int64_t below = (int64_t)r->itemsize;
    for (int joined = 0; joined < r->dims; joined++) {
        int d = 0;
        while (d < r->dims && r->stride[d] != below) d++;
        if (d == r->dims) return 0;
        below *= r->length[d];
    }
    return 1;
}

/* Decides how the elements are read. Without memory for a panel they are read one by one. */
static void prepare_reader(Reader *r) {
    int64_t size = (int64_t)r->itemsize;
    r->dense = r->dims - 1;
    while (r->dense >= 0 && r->stride[r->dense] != size) r->dense--;
    if (r->dense < 0 || r->dense == r->dims - 1) return;
    r->inner = 1;
    for (int d = r->dense + 1; d < r->dims; d++) r->inner *= r->length[d];
    r->pitch = r->inner * size + LINE; /* not a power of two, or the rows would share a few places of the cache */
    r->rows = MOST_PANEL / r->pitch < LINE / size ? MOST_PANEL / r->pitch : LINE / size;
    if (r->rows > r->length[r->dense]) r->rows = r->length[r->dense];
    if (r->rows > 1) r->panel = malloc((size_t)(r->rows * r->pitch));
    r->filled = r->row = r->column = 0;
}

/* Moves to the next element of dimensions `first` to `last`; returns 0 after their last one, when they are at the first again. */
static int advance(Reader *r, int first, int last) {
    for (int d = last; d >= first; d--) {
        if (++r->index[d] < r->length[d]) return 1;
        r->index[d] = 0;
    }
    return 0;
}

static const unsigned char *place_of(const Reader *r) {
    const unsigned char *at = r->at;
    for (int d = 0; d < r->dims; d++) at += r->index[d] * r->stride[d];
    return at;
}

#define COPY_EACH(TYPE)                                                                                                                    \
    for (int64_t i = 0; i < count; i++) memcpy(to + i * to_stride, from + i * from_stride, sizeof(TYPE));                                  \
    break;

static void copy_strided(unsigned char *to, int64_t to_stride, const unsigned char *from, int64_t from_stride, int64_t count, size_t size) {
    if (to_stride == (int64_t)size && from_stride == (int64_t)size) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    switch (size) {
    case 1: COPY_EACH(uint8_t)
    case 2: COPY_EACH(uint16_t)
    case 4: COPY_EACH(uint32_t)
    case 8: COPY_EACH(uint64_t)
    default: COPY_EACH(uint64_t[2])
    }
}

#if defined(__SSE2__)
/* Turns 8 columns of 8 elements of two bytes around. */
static inline void turn_pairs(unsigned char *to, int64_t to_stride, const unsigned char *from, int64_t from_stride) {
    __m128i a[8], b[8];
    for (int k = 0; k < 8; k++) a[k] = _mm_loadu_si128((const __m128i *)(from + k * from_stride));
    for (int k = 0; k < 4; k++) {
        b[2 * k] = _mm_unpacklo_epi16(a[2 * k], a[2 * k + 1]);
        b[2 * k + 1] = _mm_unpackhi_epi16(a[2 * k], a[2 * k + 1]);
    }
    for (int k = 0; k < 2; k++) {
        a[4 * k] = _mm_unpacklo_epi32(b[4 * k], b[4 * k + 2]);
        a[4 * k + 1] = _mm_unpackhi_epi32(b[4 * k], b[4 * k + 2]);
        a[4 * k + 2] = _mm_unpacklo_epi32(b[4 * k + 1], b[4 * k + 3]);
        a[4 * k + 3] = _mm_unpackhi_epi32(b[4 * k + 1], b[4 * k + 3]);
    }
    for (int k = 0; k < 4; k++) {
        _mm_storeu_si128((__m128i *)(to + 2 * k * to_stride), _mm_unpacklo_epi64(a[k], a[4 + k]));
        _mm_storeu_si128((__m128i *)(to + (2 * k + 1) * to_stride), _mm_unpackhi_epi64(a[k], a[4 + k]));
    }
}

/* Turns 4 columns of 4 elements of four bytes around. */
static inline void turn_quads(unsigned char *to, int64_t to_stride, const unsigned char *from, int64_t from_stride) {
    __m128i a[4], b[4];
    for (int k = 0; k < 4; k++) a[k] = _mm_loadu_si128((const __m128i *)(from + k * from_stride));
    for (int k = 0; k < 2; k++) {
        b[2 * k] = _mm_unpacklo_epi32(a[2 * k], a[2 * k + 1]);
        b[2 * k + 1] = _mm_unpackhi_epi32(a[2 * k], a[2 * k + 1]);
    }
    for (int k = 0; k < 2; k++) {
        _mm_storeu_si128((__m128i *)(to + 2 * k * to_stride), _mm_unpacklo_epi64(b[k], b[2 + k]));
        _mm_storeu_si128((__m128i *)(to + (2 * k + 1) * to_stride), _mm_unpackhi_epi64(b[k], b[2 + k]));
    }
}

/* Turns `count` columns of `rows` elements of two or four bytes around, both multiples of 8. */
static void turn_tile(const Reader *r, unsigned char *to, const unsigned char *from, int64_t stride, int64_t rows, int64_t count) {
    int64_t size = (int64_t)r->itemsize, edge = 16 / size;
    for (int64_t row = 0; row < rows; row += edge) {
        for (int64_t k = 0; k < count; k += edge) {
            unsigned char *corner = to + row * r->pitch + k * size;
            if (size == 2) turn_pairs(corner, r->pitch, from + row * size + k * stride, stride);
            else turn_quads(corner, r->pitch, from + row * size + k * stride, stride);
        }
    }
}
#endif

/* Turns `count` columns of as many elements as the panel has rows around. */
static void turn_columns(const Reader *r, unsigned char *to, const unsigned char *from, int64_t stride, int64_t count) {
    int64_t size = (int64_t)r->itemsize, row = 0;
#if defined(__SSE2__)
    if ((size == 2 || size == 4) && count % 8 == 0) {
        row = r->filled & ~(int64_t)7;
        turn_tile(r, to, from, stride, row, count);
    }
#endif
    for (; row < r->filled; row++) copy_strided(to + row * r->pitch, size, from + row * size, stride, count, r->itemsize);
}

/* Turns the elements of one index of all dimensions but the last around: TILE columns at a time, so that their lines stay in the cache.
 * The processor does not foresee such steps, so the lines of the next columns are asked for. */
static void fill_columns(const Reader *r, unsigned char *to) {
    int64_t length = r->length[r->dims - 1], stride = r->stride[r->dims - 1], size = (int64_t)r->itemsize;
    const unsigned char *from = place_of(r);
    for (int64_t j = 0; j < length; j += TILE) {
        int64_t next = j + TILE, count = length - j < TILE ? length - j : TILE;
        for (int64_t k = next; k < next + TILE && k < length; k++) __builtin_prefetch(from + k * stride);
        turn_columns(r, to + j * size, from + j * stride, stride, count);
    }
}

static void fill_panel(Reader *r) {
    int d = r->dense, last = r->dims - 1;
    int64_t left = r->length[d] - r->index[d], column = 0;
    r->filled = left < r->rows ? left : r->rows;
    do {
        fill_columns(r, r->panel + column * (int64_t)r->itemsize);
        column += r->length[last];
    } while (advance(r, d + 1, last - 1));
    r->row = r->column = 0;
    r->index[d] += r->filled;
    if (r->index[d] == r->length[d]) {
        r->index[d] = 0;
        advance(r, 0, d - 1);
    }
}

/* Copies whole rows of the last dimension, as many as `count` elements hold and the dimension above has left; returns the number of
 * elements. Rows are often short (one head of an attention), so the place is looked up for many of them at once. */
static int64_t read_rows(Reader *r, unsigned char *to, int64_t count) {
    int64_t size = (int64_t)r->itemsize, last = r->dims - 1;
    int64_t length = r->length[last], rows = count / length, left = r->length[last - 1] - r->index[last - 1];
    if (rows > left) rows = left;
    const unsigned char *from = place_of(r);
    for (int64_t row = 0; row < rows; row++) {
        copy_strided(to + row * length * size, size, from + row * r->stride[last - 1], r->stride[last], length, r->itemsize);
    }
    if ((r->index[last - 1] += rows) == r->length[last - 1]) {
        r->index[last - 1] = 0;
        advance(r, 0, (int)last - 2);
    }
    return rows * length;
}

/* Copies up to `count` elements of the present run; returns how many. */
static int64_t read_run(Reader *r, unsigned char *to, int64_t count) {
    int64_t size = (int64_t)r->itemsize, last = r->dims - 1, run;
    if (r->panel != NULL) {
        if (r->row == r->filled) fill_panel(r);
        run = r->inner - r->column < count ? r->inner - r->column : count;
        memcpy(to, r->panel + r->row * r->pitch + r->column * size, (size_t)(run * size));
        if ((r->column += run) == r->inner) r->row++, r->column = 0;
        return run;
    }
    if (last > 0 && r->index[last] == 0 && r->length[last] <= count) return read_rows(r, to, count);
    run = r->length[last] - r->index[last] < count ? r->length[last] - r->index[last] : count;
    copy_strided(to, size, place_of(r), r->stride[last], run, r->itemsize);
    if ((r->index[last] += run) == r->length[last]) {
        r->index[last] = 0;
        advance(r, 0, (int)last - 1);
    }
    return run;
}

static void read_elements(Reader *r, unsigned char *to, size_t count) {
    while (count) {
        size_t run = (size_t)read_run(r, to, (int64_t)count);
        to += run * r->itemsize;
        count -= run;
    }
}

#endif
