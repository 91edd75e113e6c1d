// Sorting of unsigned keys of BITS bits: quicksort whose partitions compress vectors, down to networks of comparisons
// (Bramas, A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512, 2017). The file is included once for each width
// of keys. It needs, for vectors `keys` of LANES keys of type KEY:
//   lesser, greater   the minimum and the maximum, lane by lane
//   exchange(x, f)    the lanes in the order lane ^ f; f is 1, 2, 3, 4, 7, 8 or 15, below LANES
//   join(x, y, upper) y in the lanes of the mask upper, else x
//   above(x, y)       the mask of the lanes in which x is above y
//   compress(x, m)    the lanes of m at the front
//   split(low, high, x, m, count)
//                     stores the lanes outside m from low on, and those of m, which are count, up to high; it may write
//                     a vector from low on and a vector up to high
//   all(k), load(e), load_first(e, n), store_first(e, x, n)
//                     the first n lanes, none for n <= 0; the other lanes are loaded as the greatest key
//   turn8, turn16     writes the columns of 8 or 16 vectors: see leaf
#define LEAF (16 * LANES) // keys that a network of comparisons sorts
#define AT_ONCE 4         // vectors of a partition: loads go ahead of stores
#define ALL ((1u << LANES) - 1)

INLINE void FN(order2)(keys *a, keys *b) {
	keys low = FN(lesser)(*a, *b);
	*b = FN(greater)(*a, *b);
	*a = low;
}
#define C(a, b) FN(order2)(v + a, v + b);
#define S4(a, b, c, d) C(a, b) C(c, d) C(a, c) C(b, d) C(b, c)

// Batcher's odd-even merge sort of each lane of 8 vectors.
INLINE void FN(columns8)(keys *v) {
	S4(0, 1, 2, 3) S4(4, 5, 6, 7)
	C(0, 4) C(1, 5) C(2, 6) C(3, 7) C(2, 4) C(3, 5) C(1, 2) C(3, 4) C(5, 6)
}

INLINE void FN(columns16)(keys *v) {
	FN(columns8)(v);
	FN(columns8)(v + 8);
	C(0, 8) C(1, 9) C(2, 10) C(3, 11) C(4, 12) C(5, 13) C(6, 14) C(7, 15) C(4, 8) C(5, 9) C(6, 10) C(7, 11)
	C(2, 4) C(3, 5) C(6, 8) C(7, 9) C(10, 12) C(11, 13) C(1, 2) C(3, 4) C(5, 6) C(7, 8) C(9, 10) C(11, 12) C(13, 14)
}

// Merges columns of K vectors by twos, fours and so on (Batcher's bitonic merge): width w joins columns of w lanes.
INLINE void FN(merge)(keys *v, const int K, const int w) {
	// The lanes whose number has the bit w/2, and below those with the bit d.
	const unsigned high = w == 2 ? 0xaaaa : w == 4 ? 0xcccc : w == 8 ? 0xf0f0 : 0xff00;
	_Pragma("GCC unroll 8")
	for (int i = 0; i < K / 2; i++) {
		keys a = v[i], b = v[K - 1 - i], ar = FN(exchange)(a, w - 1), br = FN(exchange)(b, w - 1);
		v[i] = FN(join)(FN(lesser)(a, br), FN(greater)(a, br), high & ALL);
		v[K - 1 - i] = FN(join)(FN(lesser)(b, ar), FN(greater)(b, ar), high & ALL);
	}
	_Pragma("GCC unroll 3")
	for (int d = w / 4; d > 0; d /= 2) {
		const unsigned upper = d == 1 ? 0xaaaa : d == 2 ? 0xcccc : 0xf0f0;
		_Pragma("GCC unroll 16")
		for (int i = 0; i < K; i++) {
			keys r = FN(exchange)(v[i], d);
			v[i] = FN(join)(FN(lesser)(v[i], r), FN(greater)(v[i], r), upper & ALL);
		}
	}
	_Pragma("GCC unroll 4")
	for (int d = K / 2; d > 0; d /= 2)
		_Pragma("GCC unroll 16")
		for (int i = 0; i < K; i++)
			if (!(i & d)) FN(order2)(v + i, v + i + d);
}

// Sorts K vectors column by column: lane l then holds keys l*K to l*K+K-1.
INLINE void FN(network)(keys *v, const int K) {
	if (K == 8) FN(columns8)(v); else FN(columns16)(v);
	FN(merge)(v, K, 2);
	FN(merge)(v, K, 4);
	if (LANES >= 8) FN(merge)(v, K, 8);
	if (LANES >= 16) FN(merge)(v, K, 16);
}
#undef C
#undef S4

// Sorts n keys of e into d, at most 8 or 16 vectors of them.
static void FN(leaf8)(const KEY *e, KEY *d, int64_t n) {
	keys v[8];
	_Pragma("GCC unroll 8")
	for (int i = 0; i < 8; i++) v[i] = FN(load_first)(e + LANES * i, n - LANES * i);
	FN(network)(v, 8);
	FN(turn8)(v, d, n);
}

static void FN(leaf16)(const KEY *e, KEY *d, int64_t n) {
	keys v[16];
	_Pragma("GCC unroll 16")
	for (int i = 0; i < 16; i++) v[i] = FN(load_first)(e + LANES * i, n - LANES * i);
	FN(network)(v, 16);
	FN(turn16)(v, d, n);
}

INLINE KEY FN(median)(KEY a, KEY b, KEY c) {
	KEY low = a < b ? a : b, high = a < b ? b : a, middle = high < c ? high : c;
	return low > middle ? low : middle;
}

// The median of medians of nine keys at random places.
INLINE KEY FN(choose)(const KEY *e, int64_t n) {
	KEY s[9];
	uint64_t random = (uint64_t)n;
	for (int j = 0; j < 9; j++) {
		random += 0x9e3779b97f4a7c15u;
		s[j] = e[(random * 0xbf58476d1ce4e5b9u >> 32) * (uint64_t)n >> 32];
	}
	return FN(median)(FN(median)(s[0], s[1], s[2]), FN(median)(s[3], s[4], s[5]), FN(median)(s[6], s[7], s[8]));
}

// Gathers the keys that are not above the pivot at the front of e, and gives their number; the others at the end of the
// n places of other.
INLINE int64_t FN(partition)(KEY *e, KEY *other, int64_t n, KEY pivot) {
	const keys p = FN(all)(pivot);
	int64_t low = 0, high = n, i = 0;
	for (; i + LANES * AT_ONCE <= n; i += LANES * AT_ONCE) {
		keys x[AT_ONCE];
		unsigned over[AT_ONCE];
		_Pragma("GCC unroll 4")
		for (int q = 0; q < AT_ONCE; q++) {
			x[q] = FN(load)(e + i + LANES * q);
			over[q] = FN(above)(x[q], p);
		}
		_Pragma("GCC unroll 4")
		for (int q = 0; q < AT_ONCE; q++) {
			int count = __builtin_popcount(over[q]);
			FN(split)(e + low, other + high, x[q], over[q], count);
			low += LANES - count;
			high -= count; // it is at least n less what has been read
		}
	}
	for (; i < n; i += LANES) {
		const unsigned here = n - i < LANES ? (1u << (n - i)) - 1 : ALL;
		keys x = FN(load_first)(e + i, n - i);
		const unsigned over = FN(above)(x, p) & here, below = here & ~over;
		FN(store_first)(e + low, FN(compress)(x, below), __builtin_popcount(below));
		low += __builtin_popcount(below);
		high -= __builtin_popcount(over);
		FN(store_first)(other + high, FN(compress)(x, over), __builtin_popcount(over));
	}
	return low;
}

// No key of e is above the pivot. Fills d from the number of those below it on with the pivot, up to n, and gathers
// those below it at the front of e; gives their number.
static int64_t FN(leave_equal)(KEY *e, KEY *d, int64_t n, KEY pivot) {
	const keys p = FN(all)(pivot);
	int64_t low = 0;
	for (int64_t i = 0; i < n; i += LANES) {
		const unsigned here = n - i < LANES ? (1u << (n - i)) - 1 : ALL;
		keys x = FN(load_first)(e + i, n - i);
		const unsigned below = FN(above)(p, x) & here;
		FN(store_first)(e + low, FN(compress)(x, below), __builtin_popcount(below));
		low += __builtin_popcount(below);
	}
	for (int64_t i = low; i < n; i += LANES) FN(store_first)(d + i, p, n - i);
	return low;
}

// Sorts n keys of e; the result is in e, or in other if across is set. Both lose what they hold.
static void FN(sort)(void *from, void *room, int64_t n, int across) {
	KEY *e = from, *other = room;
	while (n > LEAF) {
		const KEY pivot = FN(choose)(e, n);
		int64_t low = FN(partition)(e, other, n, pivot);
		if (low == n) low = FN(leave_equal)(e, across ? other : e, n, pivot);
		else FN(sort)(other + low, e + low, n - low, !across);
		n = low;
	}
	if (n <= LEAF / 2) FN(leaf8)(e, across ? other : e, n);
	else FN(leaf16)(e, across ? other : e, n);
}

static void FN(count)(const void *from, int64_t n, const void *splitters, int parts, int64_t *count) {
	const KEY *e = from, *splitter = splitters;
	count[0] += n;
	for (int p = 1; p < parts; p++) {
		const keys bound = FN(all)(splitter[p - 1]);
		int64_t over = 0;
		for (int64_t i = 0; i < n; i += LANES) {
			const unsigned here = n - i < LANES ? (1u << (n - i)) - 1 : ALL;
			over += __builtin_popcount(FN(above)(FN(load_first)(e + i, n - i), bound) & here);
		}
		count[p] += over;
		count[p - 1] -= over;
	}
}

static void FN(move)(const void *from, int64_t n, const void *splitters, int parts, int64_t *at, void *to) {
	const KEY *e = from, *splitter = splitters;
	for (int64_t i = 0; i < n; i += LANES) {
		unsigned left = n - i < LANES ? (1u << (n - i)) - 1 : ALL;
		const keys x = FN(load_first)(e + i, n - i);
		for (int p = 0; p < parts; p++) {
			const unsigned over = p == parts - 1 ? 0 : FN(above)(x, FN(all)(splitter[p])) & left;
			const unsigned in = left & ~over;
			const int count = __builtin_popcount(in);
			FN(store_first)((KEY *)to + at[p], FN(compress)(x, in), count);
			at[p] += count;
			left = over;
		}
	}
}

// The key of a float is its bits: all inverted if it is negative, else with the sign bit inverted. NaN has the greatest
// key. Integers are keys once their sign bit is inverted.
#define SIGN ((KEY)1 << (BITS - 1))
#define INF (BITS == 32 ? (KEY)0x7f800000 : (KEY)(0x7ffull << (BITS - 12)))
INLINE void FN(keys_by)(int kind, KEY flip, const KEY *row, int64_t step, int64_t n, KEY *d) {
	if (kind != TLK_KEY_FLOAT) {
		flip ^= kind == TLK_KEY_SIGNED ? SIGN : 0;
		for (int64_t j = 0; j < n; j++) d[j] = row[j * step] ^ flip;
	} else for (int64_t j = 0; j < n; j++) {
		KEY v = row[j * step], u = v ^ (v & SIGN ? (KEY)~(KEY)0 : SIGN);
		d[j] = ((v & (KEY)~SIGN) > INF ? (KEY)~(KEY)0 : u) ^ flip;
	}
}

static void FN(keys_of)(int kind, int descending, const void *row, int64_t step, int64_t n, void *d) {
	KEY flip = descending ? (KEY)~(KEY)0 : 0;
	if (step == 1) FN(keys_by)(kind, flip, row, 1, n, d);
	else FN(keys_by)(kind, flip, row, step, n, d);
}

// The inverse, but for NaN: the result is some NaN. e and d may be the same.
INLINE void FN(values_by)(int kind, KEY flip, const KEY *e, int64_t n, KEY *d, int64_t step) {
	if (kind != TLK_KEY_FLOAT) {
		flip ^= kind == TLK_KEY_SIGNED ? SIGN : 0;
		for (int64_t j = 0; j < n; j++) d[j * step] = e[j] ^ flip;
	} else for (int64_t j = 0; j < n; j++) {
		KEY u = e[j] ^ flip;
		d[j * step] = u ^ (u & SIGN ? SIGN : (KEY)~(KEY)0);
	}
}

static void FN(values_of)(int kind, int descending, const void *e, int64_t n, void *d, int64_t step) {
	KEY flip = descending ? (KEY)~(KEY)0 : 0;
	if (step == 1) FN(values_by)(kind, flip, e, n, d, 1);
	else FN(values_by)(kind, flip, e, n, d, step);
}
#undef SIGN
#undef INF
#undef LEAF
#undef AT_ONCE
#undef ALL
