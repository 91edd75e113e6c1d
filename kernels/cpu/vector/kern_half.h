// Packing and rounding of products of 16-bit floats (gemm_half.h).

#define TLK_WIDE(conv) tl_asu(conv(p[j]))

#if defined(__x86_64__) && TLK_VL >= 8
// Widens float16 by eights; returns how many elements are done.
TLK_INLINE int64_t half_eights(const uint16_t *p, const int64_t n, uint32_t *d) {
	typedef short v8h __attribute__((vector_size(16)));
	typedef float v8f __attribute__((vector_size(32)));
	int64_t j = 0;
	for (; j + 8 <= n; j += 8) {
		v8h h;
		memcpy(&h, p + j, 16);
		const v8f f = __builtin_ia32_vcvtph2ps256(h);
		memcpy(d + j, &f, 32);
	}
	return j;
}
#else
#define half_eights(p, n, d) 0
#endif

static void half_across(int type, int depth, const uint16_t *p, int64_t s, int64_t k, int64_t n, uint32_t *d,
	int64_t pitch) {
	for (; k > 0; k -= depth, p += depth * s, d += pitch) {
		if (depth == 2) {
			const uint16_t *q = k > 1 ? p + s : p;
			const uint32_t keep = k > 1 ? 0xffff0000u : 0;
			__builtin_prefetch(p + 2 * TLK_AHEAD * s);
			__builtin_prefetch(q + 2 * TLK_AHEAD * s);
			TLK_VEC for (int64_t j = 0; j < n; j++) d[j] = p[j] | ((uint32_t)q[j] << 16 & keep);
		} else if (type == TLK_BF16) {
			TLK_VEC for (int64_t j = 0; j < n; j++) d[j] = (uint32_t)p[j] << 16;
		} else {
			TLK_VEC for (int64_t j = half_eights(p, n, d); j < n; j++) d[j] = TLK_WIDE(tl_half_to_float);
		}
	}
}

static void half_along(int type, int depth, const uint16_t *p, int64_t s, int64_t n, int64_t k, uint32_t *d,
	int64_t pitch) {
	for (int64_t i = 0; i < n; i++, p += s, d += pitch) {
		if (depth == 2) {
			memcpy(d, p, (size_t)k * 2);
			if (k & 1) d[k / 2] = p[k - 1];
		} else if (type == TLK_BF16) {
			TLK_VEC for (int64_t j = 0; j < k; j++) d[j] = (uint32_t)p[j] << 16;
		} else {
			TLK_VEC for (int64_t j = half_eights(p, k, d); j < k; j++) d[j] = TLK_WIDE(tl_half_to_float);
		}
	}
}

// Rounds n floats.
TLK_INLINE void half_round(int type, const float *v, const int64_t n, uint16_t *c) {
	if (type == TLK_BF16) { TLK_VEC for (int64_t j = 0; j < n; j++) c[j] = tl_float_to_brain(v[j]); }
	else { TLK_VEC for (int64_t j = tl_fours_to_half(c, v, n); j < n; j++) c[j] = tl_float_to_half(v[j]); }
}

static void half_store(int type, float *sum, const float *bias, int64_t n, uint16_t *c, int64_t cn) {
	uint16_t row[32];
	if (bias) { TLK_VEC for (int64_t j = 0; j < n; j++) sum[j] += bias[j]; }
	for (int64_t m; n > 0; n -= m, sum += m, c += m * cn) {
		m = n < 32 ? n : 32;
		uint16_t *to = cn == 1 ? c : row;
		if (m == 32) half_round(type, sum, 32, to); // a loop of known length is all vectors
		else half_round(type, sum, m, to);
		for (int64_t j = 0; cn != 1 && j < m; j++) c[j * cn] = row[j];
	}
}
