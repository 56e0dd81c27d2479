/* What a tensor object is, asked of its framework through DLPack's C exchange API (DLPack 1.3 and later of major version 1).
 *
 * The layouts are those of dlpack.h (github.com/dmlc/dlpack), which keeps them within a major version. A framework puts a table of
 * functions into a capsule on its tensor type; one call then gives address, dtype and lengths, where Python takes one for each.
 */
#ifndef MSPROBE_EXCHANGE_H
#define MSPROBE_EXCHANGE_H

#include "decode.h"

#define DLPACK_MAJOR 1
#define DLPACK_CPU 1

typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* both of the framework, and valid while nothing else runs */
    uint64_t byte_offset;
} Tensor;

typedef struct {
    uint32_t major, minor;
    void *older;
    void *allocate, *to_managed, *from_managed; /* not used here */
    int (*borrow)(void *object, Tensor *tensor); /* 0, or -1 with a Python exception set */
    void *current_stream;
} Exchange;

/* The code of a DLPack dtype; -1 for one without a kernel. */
static int code_of(const Tensor *t) {
    static const signed char INTEGERS[2][4] = {{INT8, INT16, INT32, INT64}, {UINT8, UINT16, UINT32, UINT64}};
    int power = t->bits == 8 ? 0 : t->bits == 16 ? 1 : t->bits == 32 ? 2 : t->bits == 64 ? 3 : t->bits == 128 ? 4 : -1;
    if (t->lanes != 1 || power < 0) return -1;
    switch (t->code) {
    case 0: case 1: return power < 4 ? INTEGERS[t->code][power] : -1;
    case 2: return power == 1 ? FLOAT16 : power == 2 ? FLOAT32 : power == 3 ? FLOAT64 : -1;
    case 4: return power == 1 ? BFLOAT16 : -1;
    case 5: return power == 3 ? COMPLEX64 : power == 4 ? COMPLEX128 : -1;
    case 6: return power == 0 ? BOOL : -1;
    case 10: return power == 0 ? E4M3FN : -1;
    case 11: return power == 0 ? E4M3FNUZ : -1;
    case 12: return power == 0 ? E5M2 : -1;
    case 13: return power == 0 ? E5M2FNUZ : -1;
    case 14: return power == 0 ? E8M0FNU : -1;
    default: return -1;
    }
}

/* The number of elements; -1 where they do not lie one after the other in row-major order. */
static int64_t dense_length(const Tensor *t) {
    int64_t length = 1;
    for (int32_t i = t->ndim; i-- > 0;) {
        if (t->shape[i] != 1 && t->strides != NULL && t->strides[i] != length) return -1;
        length *= t->shape[i];
    }
    return length;
}

#endif
