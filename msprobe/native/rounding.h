/* Rounding of finished statistics to the precision of their tensor. */
#ifndef MSPROBE_ROUNDING_H
#define MSPROBE_ROUNDING_H

#include <math.h>

#include "decode.h"

/* Nearest value with `digits` significant bits, ties to even, no finer than `finest`; infinite beyond `largest`. */
static double round_bits(double v, int digits, double finest, double largest) {
    int exponent;
    if (!isfinite(v) || v == 0) return v;
    frexp(v, &exponent);
    double unit = fmax(ldexp(1.0, exponent - digits), finest);
    v = rint(v / unit) * unit;
    return fabs(v) > largest ? copysign(INFINITY, v) : v;
}

/* To the tensor's own precision (low) or float32 (high); a finite value that the narrow format cannot hold keeps a wider one. */
static double round_result(double v, int code, int high) {
    double narrow = v;
    if (code == FLOAT64 || code == COMPLEX128 || (code >= UINT8 && code <= UINT64)) return v;
    if (code == FLOAT16 && !high) narrow = round_bits(v, 11, 0x1p-24, 65504.0);
    else if (code == BFLOAT16 && !high) narrow = round_bits(v, 8, 0x1p-133, 0x1.fep127);
    if (narrow == v || (isinf(narrow) && isfinite(v))) narrow = (double)(float)v;
    return isinf(narrow) && isfinite(v) ? v : narrow;
}

#endif
