/* Half precision and bfloat16, to double and from it. */
#ifndef TORCHLETTE_HALF_H
#define TORCHLETTE_HALF_H

#include <stdint.h>
#include <string.h>

static inline double from_half(uint16_t h) {
    uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = (h >> 10) & 31, fraction = h & 1023, bits;
    if (exponent == 31) {
        bits = sign | 0x7F800000u | fraction << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        float f = (float)fraction / 16777216.0f; /* 2^-24 */
        return sign != 0 ? -(double)f : (double)f;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static inline double from_bfloat(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Rounds to nearest, ties to even. */
static inline uint16_t to_bfloat(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) {
        return 0x7FC0;
    }
    return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static inline uint16_t to_half(double d) {
    float f = (float)d;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) {
        return sign | 0x7E00;
    }
    if (magnitude >= 0x477FF000) { /* rounds to 65536 or more */
        return sign | 0x7C00;
    }
    if (magnitude < 0x38800000) { /* subnormal: adding 0.5 aligns and rounds the fraction */
        float aligned, magic = 0.5f;
        memcpy(&aligned, &magnitude, sizeof aligned);
        aligned += magic;
        memcpy(&magnitude, &aligned, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3F000000));
    }
    magnitude += 0xC8000FFF + ((magnitude >> 13) & 1); /* rebias by -112, round */
    return (uint16_t)(sign | magnitude >> 13);
}

#endif
