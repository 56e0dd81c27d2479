/* One pass over memory for Max, Min, Mean, L2 norm (and CRC-32, and the projection). Optional: everything here has a Python equivalent.
 *
 * The definitions are those of msprobe.core.tensors.statistics; the Python view of this module is the Kernel protocol in loader.py.
 * Narrow elements are widened block by block (decode.h), blocks are reduced in double (blocks.h) and joined with a compensated sum,
 * so the error does not grow with the tensor. Built against the stable ABI of CPython 3.10.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030A0000
#endif
#include <Python.h>

#include "blocks.h"
#include "checksums.h"
#include "decode.h"
#include "difference.h"
#include "elements.h"
#include "exchange.h"
#include "moments.h"
#include "rounding.h"
#include "similarity.h"
#include "strided.h"

#define INTERFACE 11
#define LOWEST ((uintptr_t)1 << 40) /* as in tensor_memory.py: below, an address may be an offset into freed storage */
#define MOST_REPEATED ((int64_t)1 << 20) /* elements, as EXPANDED in tensor_memory.py: a longer expanded tensor is not read whole */
#define RELEASE_ABOVE 65536 /* bytes: below this, giving up the interpreter lock costs more than it frees */

typedef struct {
    double max, min, sum, sumsq, turned, sum_rest, sumsq_rest, turned_rest;
    int64_t imax, imin;
    uint64_t nonfinite;
    uint32_t crc;
} Total;

enum { CRC = 1, PROJECTION = 2 }; /* what is measured beside the statistics */

typedef struct {
    unsigned char *at;
    size_t n;
    int code, high, wanted;
    const Reader *reader; /* NULL where the elements lie one after the other */
} Span;

/* Neumaier's compensated addition; the remainder of an overflowing or infinite sum is meaningless and stays out. */
static void add(double *sum, double *rest, double value) {
    double next = *sum + value;
    if (isfinite(next)) *rest += fabs(*sum) >= fabs(value) ? (*sum - next) + value : (value - next) + *sum;
    *sum = next;
}

#define COUNT(TYPE, ONES)                                                                                                                  \
    for (size_t i = 0; i < n; i++) {                                                                                                       \
        TYPE bits;                                                                                                                         \
        memcpy(&bits, (const char *)x + i * sizeof bits, sizeof bits);                                                                     \
        count += (bits & (TYPE)(ONES)) == (TYPE)(ONES);                                                                                    \
    }

/* How many of n floats have an exponent of ones only. */
static uint64_t count_nonfinite(const void *x, size_t n, int code) {
    uint64_t count = 0;
    switch (code) {
    case FLOAT16: COUNT(uint16_t, 0x7c00) break;
    case BFLOAT16: COUNT(uint16_t, 0x7f80) break;
    case FLOAT32: COUNT(uint32_t, 0x7f800000) break;
    default: COUNT(uint64_t, (uint64_t)0x7ff << 52)
    }
    return count;
}

/* How many elements make a block. What is exact in float is summed for longer: its sums in double are off by less, and 16 KB hold it. */
static size_t block_length(int code) {
    switch (code) {
    case INT32: case UINT32: case INT64: case UINT64: case FLOAT64: case COMPLEX64: case COMPLEX128: return BLOCK;
    default: return 2 * BLOCK;
    }
}

static int needs_widening(int code) {
    switch (code) {
    case FLOAT16: return reduce.float16 == NULL;
    case BFLOAT16: return reduce.bfloat16 == NULL;
    default: return code != FLOAT32 && code != FLOAT64 && code != INT64 && code != UINT64;
    }
}

static void reduce_block(const void *x, size_t n, int code, double scale, Block *b) {
    double room[BLOCK] __attribute__((aligned(64)));
    if (needs_widening(code)) {
        code = widen(x, n, code, room) ? FLOAT32 : FLOAT64;
        x = room;
    }
    switch (code) {
    case INT64: reduce.int64(x, n, 1.0, b); break;
    case UINT64: reduce.uint64(x, n, 1.0, b); break;
    case FLOAT16: reduce.float16(x, n, b); break;
    case BFLOAT16: reduce.bfloat16(x, n, b); break;
    case FLOAT32: reduce.float32(x, n, b); break;
    default: reduce.float64(x, n, scale, b);
    }
    b->nonfinite = code != INT64 && code != UINT64 && !isfinite(b->sumsq) ? count_nonfinite(x, n, code) : 0;
}

static void add_block(const Block *b, int code, uint64_t number, size_t n, Total *t) {
    if (code == INT64 || code == UINT64) {
        if (code == INT64 ? b->imax > t->imax : (uint64_t)b->imax > (uint64_t)t->imax) t->imax = b->imax;
        if (code == INT64 ? b->imin < t->imin : (uint64_t)b->imin < (uint64_t)t->imin) t->imin = b->imin;
    } else {
        if (b->max > t->max) t->max = b->max;
        if (b->min < t->min) t->min = b->min;
        t->nonfinite += b->nonfinite;
    }
    add(&t->sum, &t->sum_rest, b->sum);
    add(&t->sumsq, &t->sumsq_rest, b->sumsq);
    if (b->projecting) EACH_PART(part, n) add(&t->turned, &t->turned_rest, b->turned[part] * block_weight(number + part));
}

static void measure(const Span *s, double scale, int wanted, Total *t) {
    double room[2 * BLOCK] __attribute__((aligned(64)));
    const unsigned char *x = s->at;
    Reader reader;
    if (s->reader != NULL) prepare_reader(memcpy(&reader, s->reader, sizeof reader));
    memset(t, 0, sizeof *t);
    t->max = -INFINITY;
    t->min = INFINITY;
    t->imax = s->code == INT64 ? INT64_MIN : 0;
    t->imin = s->code == INT64 ? INT64_MAX : -1;
    size_t length = block_length(s->code);
    for (size_t n = s->n, part, done = 0; n; n -= part, done += part) {
        Block b = {.projecting = (wanted & PROJECTION) != 0};
        part = n < length ? n : length;
        if (s->reader != NULL) read_elements(&reader, (unsigned char *)room, part);
        const unsigned char *block = s->reader != NULL ? (unsigned char *)room : x + done * ITEMSIZE[s->code];
        reduce_block(block, part, s->code, scale, &b);
        add_block(&b, s->code, done / BLOCK, part, t);
        if (wanted & CRC) t->crc = crc_extend(t->crc, block, part * ITEMSIZE[s->code]);
    }
    if (s->reader != NULL) free(reader.panel);
    if (isfinite(t->sum)) t->sum += t->sum_rest;
    if (isfinite(t->sumsq)) t->sumsq += t->sumsq_rest;
    if (isfinite(t->turned)) t->turned += t->turned_rest;
    if (isnan(t->sumsq)) t->max = t->min = t->sum = t->sumsq;
}

/* Mean and norm in double. Squares of doubles may leave the range although the norm is inside: then once more, scaled by 2^-k. */
static void summarise(const Span *s, const Total *t, double *mean, double *norm) {
    size_t n = s->n;
    int code = s->code;
    *mean = t->sum / (double)n;
    *norm = sqrt(t->sumsq);
    if ((code == FLOAT64 || code == COMPLEX128) && t->nonfinite == 0) {
        double largest = fmax(fabs(t->max), fabs(t->min));
        if (largest > 0 && isfinite(largest) && (!isfinite(t->sum) || !(t->sumsq < 1e290 && t->sumsq > 1e-290))) {
            Total scaled;
            int exponent;
            frexp(largest, &exponent);
            if (exponent < -1000) exponent = -1000; /* keep 2^-k itself in range */
            measure(s, ldexp(1.0, -exponent), 0, &scaled);
            *mean = ldexp(scaled.sum / (double)n, exponent);
            *norm = ldexp(sqrt(scaled.sumsq), exponent);
        }
    }
    if (n == 1) *norm = fabs(t->sum); /* exact, where the root of the square may be an ulp off */
}

/* One extreme as the Python type its dtype calls for: bool, int or float. */
static PyObject *extreme(const Total *t, int code, int highest) {
    double v = highest ? t->max : t->min;
    int64_t i = highest ? t->imax : t->imin;
    if (code == BOOL) return PyBool_FromLong(v != 0);
    if (code == INT64) return PyLong_FromLongLong(i);
    if (code == UINT64) return PyLong_FromUnsignedLongLong((uint64_t)i);
    if (code <= UINT32) return PyLong_FromLongLong((long long)v);
    return PyFloat_FromDouble(code == COMPLEX64 ? round_result(v, code, 1) : v);
}

static PyObject *none(void) { return Py_BuildValue(""); }

/* Takes over `count` new references, some of which may be NULL after a failed allocation. */
static PyObject *pack(PyObject **items, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    int good = tuple != NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (items[i] == NULL) good = 0;
        if (tuple != NULL) PyTuple_SetItem(tuple, i, items[i]);
        else Py_XDECREF(items[i]);
    }
    if (good) return tuple;
    Py_XDECREF(tuple);
    return NULL;
}

static int read_address(PyObject *pointer, PyObject *count, Span *span) {
    span->at = PyLong_AsVoidPtr(pointer);
    if (span->at == NULL && PyErr_Occurred()) return 0;
    span->n = PyLong_AsSize_t(count);
    if (span->n == (size_t)-1 && PyErr_Occurred()) return 0;
    if (span->at != NULL || span->n == 0) return 1;
    PyErr_SetString(PyExc_ValueError, "null pointer: this tensor has no memory to read");
    return 0;
}

/* Reads the two optional switches: high precision, projection. */
static int read_switches(PyObject *const *args, Py_ssize_t count, Span *span) {
    int projection = count > 1 ? PyObject_IsTrue(args[1]) : 0;
    span->high = count > 0 ? PyObject_IsTrue(args[0]) : 0;
    span->wanted = projection > 0 ? PROJECTION : 0;
    return span->high >= 0 && projection >= 0;
}

static int read_span(PyObject *const *args, Py_ssize_t count, Span *span) {
    if (count < 3 || count > 5) {
        PyErr_SetString(PyExc_TypeError, "expected (pointer, elements, dtype code[, high precision[, projection]])");
        return 0;
    }
    if (!read_address(args[0], args[1], span)) return 0;
    long code = PyLong_AsLong(args[2]);
    if (code == -1 && PyErr_Occurred()) return 0;
    if (code < 0 || code >= CODES) {
        PyErr_Format(PyExc_ValueError, "unknown dtype code %ld", code);
        return 0;
    }
    span->code = (int)code;
    span->reader = NULL;
    return read_switches(args + 3, count - 3, span);
}

/* Runs `work` with the interpreter lock released when the span is long. */
#define UNLOCKED(bytes, work)                                                                                                              \
    if ((bytes) > RELEASE_ABOVE) {                                                                                                         \
        Py_BEGIN_ALLOW_THREADS work;                                                                                                       \
        Py_END_ALLOW_THREADS                                                                                                               \
    } else {                                                                                                                               \
        work;                                                                                                                              \
    }

static PyObject *stats_of(const Span *s) {
    Total t;
    UNLOCKED(s->n * ITEMSIZE[s->code], measure(s, 1.0, 0, &t))
    PyObject *items[5] = {s->n ? extreme(&t, s->code, 1) : none(), s->n ? extreme(&t, s->code, 0) : none(), PyFloat_FromDouble(t.sum),
                          PyFloat_FromDouble(t.sumsq), PyLong_FromUnsignedLongLong(t.nonfinite)};
    return pack(items, 5);
}

static PyObject *summary_of(const Span *s) {
    Total t;
    double mean = 0, norm = 0;
    UNLOCKED(s->n * ITEMSIZE[s->code], measure(s, 1.0, s->wanted, &t); summarise(s, &t, &mean, &norm))
    int filled = s->n > 0, real = filled && s->code != BOOL, count = 4;
    PyObject *items[6] = {filled ? extreme(&t, s->code, 1) : none(), filled ? extreme(&t, s->code, 0) : none(),
                          real ? PyFloat_FromDouble(round_result(mean, s->code, s->high)) : none(),
                          real ? PyFloat_FromDouble(round_result(norm, s->code, s->high)) : none(), NULL, NULL};
    if (s->wanted & PROJECTION) items[count++] = filled ? PyFloat_FromDouble(t.turned) : none();
    if (s->wanted & CRC) items[count++] = PyLong_FromUnsignedLong(t.crc);
    return pack(items, count);
}

static PyObject *stats(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span span;
    return read_span(args, count, &span) ? stats_of(&span) : NULL;
}

static PyObject *summary(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span span;
    return read_span(args, count, &span) ? summary_of(&span) : NULL;
}

static PyObject *summary_crc32(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span span;
    if (!read_span(args, count, &span)) return NULL;
    span.wanted |= CRC;
    return summary_of(&span);
}

static PyObject *shape_of(const Tensor *t) {
    PyObject *shape = PyTuple_New(t->ndim);
    for (int32_t i = 0; shape != NULL && i < t->ndim; i++) {
        PyObject *length = PyLong_FromLongLong(t->shape[i]);
        if (length == NULL) Py_CLEAR(shape);
        else PyTuple_SetItem(shape, i, length);
    }
    return shape;
}

/* None where something else must look: no memory here, empty, expanded to many elements, or a dtype without a kernel. */
static PyObject *tensor_summary(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Tensor t;
    Span span;
    Reader reader;
    if (count != 3 && count != 4) return PyErr_Format(PyExc_TypeError, "expected (exchange, tensor, high precision[, projection])");
    const Exchange *exchange = PyCapsule_GetPointer(args[0], "dlpack_exchange_api");
    if (exchange == NULL) return NULL;
    if (exchange->major != DLPACK_MAJOR) return none();
    if (!read_switches(args + 2, count - 2, &span)) return NULL;
    if (exchange->borrow(args[1], &t) != 0) {
        PyErr_Clear();
        return none();
    }
    span.at = (unsigned char *)t.data + t.byte_offset;
    span.code = code_of(&t);
    if (t.device_type != DLPACK_CPU || (uintptr_t)span.at < LOWEST || span.code < 0) return none();
    int64_t length = dense_length(&t);
    span.reader = length < 0 ? &reader : NULL;
    if (length < 0) length = open_reader(&reader, span.at, ITEMSIZE[span.code], t.ndim, t.shape, t.strides, MOST_REPEATED);
    if (length <= 0) return none();
    if (!span.wanted && span.reader != NULL && fills_memory(&reader)) span.reader = NULL; /* no statistic depends on the order */
    span.n = (size_t)length;
    PyObject *shape = shape_of(&t), *rest;
    if (shape == NULL) return NULL;
    rest = summary_of(&span);
    return rest == NULL ? (Py_DECREF(shape), NULL) : Py_BuildValue("iNN", span.code, shape, rest);
}

static PyObject *crc32(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span span;
    unsigned long start = 0, result = 0;
    if (count != 2 && count != 3) return PyErr_Format(PyExc_TypeError, "expected (pointer, bytes[, running crc])");
    if (!read_address(args[0], args[1], &span)) return NULL;
    if (count == 3) start = PyLong_AsUnsignedLongMask(args[2]);
    if (PyErr_Occurred()) return NULL;
    UNLOCKED(span.n, result = crc_extend((uint32_t)start, span.at, span.n))
    return PyLong_FromUnsignedLong(result);
}

static PyObject *xor64(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span span;
    uint64_t result = 0;
    if (count != 2) return PyErr_Format(PyExc_TypeError, "expected (pointer, bytes)");
    if (!read_address(args[0], args[1], &span)) return NULL;
    UNLOCKED(span.n, result = xor_words(span.at, span.n))
    return PyLong_FromUnsignedLongLong(result);
}

static PyObject *element_sum(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span span;
    uint64_t result = 0;
    if (count != 3) return PyErr_Format(PyExc_TypeError, "expected (pointer, bytes, bytes of an element)");
    if (!read_address(args[0], args[1], &span)) return NULL;
    size_t width = PyLong_AsSize_t(args[2]);
    if (PyErr_Occurred()) return NULL;
    if (width == 0 || width > 8 || (width & (width - 1)) || span.n % width) {
        return PyErr_Format(PyExc_ValueError, "no sum of elements of %zu bytes", width);
    }
    UNLOCKED(span.n, result = mixed_sum(span.at, span.n / width, width))
    return PyLong_FromUnsignedLongLong(result);
}

static PyObject *difference(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span n, b;
    Difference t;
    int equal = 0;
    if (count != 4) return PyErr_Format(PyExc_TypeError, "expected (pointer, pointer, elements, dtype code)");
    PyObject *const other[3] = {args[1], args[2], args[3]}, *const own[3] = {args[0], args[2], args[3]};
    if (!read_span(own, 3, &n) || !read_span(other, 3, &b)) return NULL;
    if (n.code < FLOAT16 || n.code > FLOAT64) return PyErr_Format(PyExc_ValueError, "no differences of dtype code %d", n.code);
    size_t bytes = n.n * ITEMSIZE[n.code];
    UNLOCKED(bytes, equal = memcmp(n.at, b.at, bytes) == 0; if (!equal) measure_difference(n.at, b.at, n.n, n.code, &t))
    if (equal) return Py_BuildValue("i", 0);
    if (t.odd) return none();
    return Py_BuildValue("(dddddddLL)", t.dot, t.square_n, t.square_b, t.square_difference, t.max_difference, t.max_value, t.max_relative,
                         (long long)t.below_one, (long long)t.below_five);
}

static PyObject *elements(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span n, b;
    Elements t;
    if (count != 6) return PyErr_Format(PyExc_TypeError, "expected (pointer, pointer, elements, dtype code, rtol, atol)");
    PyObject *const other[3] = {args[1], args[2], args[3]}, *const own[3] = {args[0], args[2], args[3]};
    if (!read_span(own, 3, &n) || !read_span(other, 3, &b)) return NULL;
    if (n.code < FLOAT16 || n.code > FLOAT64) return PyErr_Format(PyExc_ValueError, "no elements of dtype code %d", n.code);
    t.rtol = PyFloat_AsDouble(args[4]);
    t.atol = PyFloat_AsDouble(args[5]);
    if (PyErr_Occurred()) return NULL;
    UNLOCKED(n.n * ITEMSIZE[n.code], measure_elements(n.at, b.at, n.n, n.code, &t))
    return Py_BuildValue("(LLKii)", (long long)t.first, (long long)t.worst, (unsigned long long)t.steps, t.far, t.odd);
}

static int read_floats(PyObject *const *args, Py_ssize_t count, Py_ssize_t wanted, Span *span) {
    if (count != wanted) return PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", wanted, count), 0;
    if (!read_span(args, 3, span)) return 0;
    if (span->code >= FLOAT16 && span->code <= FLOAT64) return 1;
    PyErr_Format(PyExc_ValueError, "no moments of dtype code %d", span->code);
    return 0;
}

static PyObject *squares(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span span;
    double sum = 0;
    if (!read_floats(args, count, 3, &span)) return NULL;
    UNLOCKED(span.n * ITEMSIZE[span.code], sum = sum_squares(span.at, span.n, span.code))
    return PyFloat_FromDouble(sum);
}

static PyObject *small(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span span;
    uint64_t found = 0;
    if (!read_floats(args, count, 4, &span)) return NULL;
    double bound = PyFloat_AsDouble(args[3]);
    if (PyErr_Occurred()) return NULL;
    UNLOCKED(span.n * ITEMSIZE[span.code], found = count_small(span.at, span.n, span.code, bound))
    return PyLong_FromUnsignedLongLong(found);
}

static PyObject *similarity(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Span n, b;
    Similarity t;
    if (count != 4) return PyErr_Format(PyExc_TypeError, "expected (pointer, pointer, elements, dtype code)");
    PyObject *const other[3] = {args[1], args[2], args[3]}, *const own[3] = {args[0], args[2], args[3]};
    if (!read_span(own, 3, &n) || !read_span(other, 3, &b)) return NULL;
    if (n.code < FLOAT16 || n.code > E8M0FNU) return PyErr_Format(PyExc_ValueError, "no similarity of dtype code %d", n.code);
    UNLOCKED(n.n * ITEMSIZE[n.code], measure_similarity(n.at, b.at, n.n, n.code, &t))
    return Py_BuildValue("(dddddddLLK)", t.dot, t.square_n, t.square_b, t.square_difference, t.apart, t.largest_n, t.largest_b,
                         (long long)t.odd_n, (long long)t.odd_b, (unsigned long long)t.steps);
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, doc}
static PyMethodDef METHODS[] = {
    FAST(stats, "stats(pointer, elements, code) -> (max, min, sum, sum of squares, number of NaN and infinite elements)"),
    FAST(summary, "summary(pointer, elements, code, high=False, projection=False) -> (max, min, mean, norm[, projection])"),
    FAST(summary_crc32, "summary_crc32(pointer, elements, code, high=False, projection=False) -> (max, min, mean, norm[, projection], crc)"),
    FAST(tensor_summary, "tensor_summary(exchange, tensor, high=False, projection=False) -> (code, shape, summary) or None"),
    FAST(crc32, "crc32(pointer, bytes, start=0) -> running CRC-32, as zlib.crc32"),
    FAST(xor64, "xor64(pointer, bytes) -> XOR of little-endian 64-bit words, zero padded"),
    FAST(element_sum, "element_sum(pointer, bytes, width) -> sum of the mixed bit patterns of elements of 1, 2, 4 or 8 bytes"),
    FAST(difference, "difference(pointer, pointer, elements, code) -> nine sums and extremes, 0 if equal, None if NaN or Inf differ"),
    FAST(elements, "elements(pointer, pointer, elements, code, rtol, atol) -> (first, worst, steps, far, odd)"),
    FAST(squares, "squares(pointer, elements, code) -> sum of squares of floats, in double"),
    FAST(small, "small(pointer, elements, code, bound) -> number of floats with a magnitude below the bound"),
    FAST(similarity, "similarity(pointer, pointer, elements, code) -> (n.b, n.n, b.b, |n-b|^2, max |n-b|, max |n|, max |b|, odd, odd, steps)"),
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_fused", "One-pass tensor statistics and checksums.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__fused(void) {
    PyObject *module = PyModule_Create(&MODULE);
    choose_reductions();
    choose_sums();
    fill_float8();
    fill_weights();
    prepare_crc();
    if (module == NULL) return NULL;
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0 || PyModule_AddIntConstant(module, "FAST_CRC32", fast_crc) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
