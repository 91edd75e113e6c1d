/* Hash functions of the extension's tables. */
#ifndef TORCHLETTE_HASH_H
#define TORCHLETTE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a of a text. */
static inline uint32_t hash_text(const char *s) {
    uint32_t h = 2166136261u;
    for (; *s != 0; s++) {
        h = (h ^ (unsigned char)*s) * 16777619u;
    }
    return h;
}

/* Sum of the words, each multiplied by an odd constant of its position: no product waits for another. The upper half
 * and bits 12 and up are well mixed; they are folded into the result. */
static inline uint64_t hash_words(const uint64_t *words, int32_t n) {
    uint64_t h = 0, odd = 0x9E3779B97F4A7C15u;
    for (int32_t i = 0; i < n; i++, odd += 0x632BE59BD9B4E01Au) {
        h += (words[i] ^ words[i] >> 32) * odd;
    }
    return h >> 32 ^ h >> 12;
}

/* Of an object's address and a small number, for direct-mapped caches. */
static inline size_t hash_place(const void *object, int number) {
    return ((uintptr_t)object >> 5) ^ (size_t)number * 0x9E37u;
}

/* Of an object's address, as Python's id() hashes: the low bits, which alignment keeps at zero, are dropped. */
static inline size_t hash_identity(const void *object) { return (uintptr_t)object >> 4; }

#endif
