// Packing and rounding of products of 16-bit floats (gemm_half.h).

#define TLK_WIDE(conv) tl_asu(conv(p[j]))

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
			TLK_VEC for (int64_t j = 0; j < n; j++) d[j] = TLK_WIDE(tl_half_to_float);
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
			TLK_VEC for (int64_t j = 0; j < k; j++) d[j] = TLK_WIDE(tl_half_to_float);
		}
	}
}

static void half_store(int type, const float *sum, const float *bias, int64_t n, uint16_t *c, int64_t cn) {
	uint16_t row[64];
	for (int64_t i = 0, m; i < n; i += m) {
		m = n - i < 64 ? n - i : 64;
		float v[64];
		uint16_t *to = cn == 1 ? c + i : row;
		if (bias) { TLK_VEC for (int64_t j = 0; j < m; j++) v[j] = sum[i + j] + bias[i + j]; }
		else memcpy(v, sum + i, (size_t)m * 4);
		if (type == TLK_BF16) { TLK_VEC for (int64_t j = 0; j < m; j++) to[j] = tl_float_to_brain(v[j]); }
		else { TLK_VEC for (int64_t j = tl_fours_to_half(to, v, m); j < m; j++) to[j] = tl_float_to_half(v[j]); }
		for (int64_t j = 0; cn != 1 && j < m; j++) c[(i + j) * cn] = row[j];
	}
}
