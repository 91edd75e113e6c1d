// What sorting by vectors gives to kernels/cpu/sort.c.
#ifndef TL_SORT_H
#define TL_SORT_H
#include <stdint.h>

// Vector instructions that sort unsigned keys of 32 or 64 bits. sort: n keys of e in ascending order, into other if
// across is set; both lose what they hold. count, move: splitters, in ascending order, divide keys into parts, part p
// those above splitter p-1 and not above p. count adds the parts' sizes to count. move writes the keys of part p from
// to + at[p] on. keys makes the keys of n elements of a row, whose order is the one asked for: NaN last, -0 before 0.
// values is the inverse, but for NaN's bits; e and d may be the same.
enum { TLK_KEY_UNSIGNED, TLK_KEY_SIGNED, TLK_KEY_FLOAT };
typedef struct {
	void (*sort)(void *e, void *other, int64_t n, int across);
	void (*count)(const void *e, int64_t n, const void *splitter, int parts, int64_t *count);
	void (*move)(const void *e, int64_t n, const void *splitter, int parts, int64_t *at, void *to);
	void (*keys)(int kind, int descending, const void *row, int64_t step, int64_t n, void *d);
	void (*values)(int kind, int descending, const void *e, int64_t n, void *d, int64_t step);
} tl_key_sorter;

// Returns the sorter of an instruction set for keys of 4 or 8 bytes, or NULL: items are then sorted by digits.
const tl_key_sorter *tl_isa_sorter(int isa, int bytes);
extern const tl_key_sorter tl_keys_avx2[2], tl_keys_avx512[2];

#endif
