// Packing and rounding of products of 16-bit floats (gemm_half.h).

#define TLK_NEXT 256 // elements that a long line is fetched ahead
#define TLK_WIDE(conv) tl_asu(conv(p[j]))

// Numbers of half the width as floats.
TLK_INLINE tl_v32 brain_vector(const uint16_t *p) {
	typedef uint16_t vu16 __attribute__((vector_size(TLK_VL * 2), aligned(2), may_alias));
	typedef uint32_t vu32 __attribute__((vector_size(TLK_VL * 4)));
	return (tl_v32)(__builtin_convertvector(*(const vu16 *)p, vu32) << 16);
}

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

TLK_INLINE float half_one(const int type, const uint16_t h) {
	const uint32_t u = (uint32_t)h << 16;
	float f;
	memcpy(&f, &u, 4);
	return type == TLK_BF16 ? f : tl_half_to_float(h);
}

// A vector's lanes, widened.
TLK_INLINE tl_v32 half_lanes(const int type, const uint16_t *p) {
	if (type == TLK_BF16) return brain_vector(p);
#if defined(__x86_64__) && TLK_VL == 16
	return (tl_v32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__x86_64__) && TLK_VL == 8
	return (tl_v32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
	tl_v32 v = {0};
	for (int l = 0; l < TLK_VL; l++) v[l] = tl_half_to_float(p[l]);
	return v;
#endif
}

// Four lines at a time, each of which fetches the line that the next four have at its place; long ones fetch their own.
TLK_INLINE void half_dots_of(const int type, int64_t n, int64_t kk, const float *a, const uint16_t *b, int64_t bn,
	float *c) {
	const int64_t next = 4 * bn * 2 <= TLK_FOUR_ROWS ? 4 * bn : TLK_NEXT;
	for (int64_t j = 0; j < n; j += 4) {
		const int64_t m = n - j < 4 ? n - j : 4;
		const uint16_t *p[4];
		tl_v32 t[4][2];
		TLK_UNROLL for (int i = 0; i < 4; i++) {
			p[i] = b + (j + (i < m ? i : 0)) * bn;
			t[i][0] = t[i][1] = (tl_v32){0};
		}
		int64_t k = 0;
		for (; k + 2 * TLK_VL <= kk; k += 2 * TLK_VL) {
			const tl_v32 x = *(const tl_v32 *)(a + k), y = *(const tl_v32 *)(a + k + TLK_VL);
			TLK_UNROLL for (int i = 0; i < 4; i++) {
				__builtin_prefetch(p[i] + k + next);
				t[i][0] += x * half_lanes(type, p[i] + k);
				t[i][1] += y * half_lanes(type, p[i] + k + TLK_VL);
			}
		}
		for (int i = 0; i < m; i++) {
			float sum = lanes32(t[i][0] + t[i][1]);
			for (int64_t q = k; q < kk; q++) sum += a[q] * half_one(type, p[i][q]);
			c[j + i] = sum;
		}
	}
}

static void half_dots(int type, int64_t n, int64_t k, const float *a, const uint16_t *b, int64_t bn, float *c) {
	if (type == TLK_BF16) half_dots_of(TLK_BF16, n, k, a, b, bn, c);
	else half_dots_of(TLK_F16, n, k, a, b, bn, c);
}

// One row or four, each of which fetches the row that the next four have at its place: most begin on another page, so
// the hardware prefetcher does not fetch them.
TLK_INLINE void half_rows_added(const int type, const int rows, int64_t n, const float *a, const uint16_t *b,
	int64_t bk, float *c) {
	int64_t j = 0;
	for (; j + TLK_VL <= n; j += TLK_VL) {
		tl_v32 sum = {0};
		TLK_UNROLL for (int i = 0; i < rows; i++) {
			if (j * 2 % 64 == 0) __builtin_prefetch(b + (i + 4) * bk + j);
			sum += a[i] * half_lanes(type, b + i * bk + j);
		}
		*(tl_v32 *)(c + j) += sum;
	}
	for (; j < n; j++) {
		float sum = 0;
		for (int i = 0; i < rows; i++) sum += a[i] * half_one(type, b[i * bk + j]);
		c[j] += sum;
	}
}

TLK_INLINE void half_rows_of(const int type, int64_t n, int64_t k, const float *a, const uint16_t *b, int64_t bk,
	float *c) {
	for (; k >= 4; k -= 4, a += 4, b += 4 * bk) half_rows_added(type, 4, n, a, b, bk, c);
	for (; k > 0; k--, a++, b += bk) half_rows_added(type, 1, n, a, b, bk, c);
}

static void half_rows(int type, int64_t n, int64_t k, const float *a, const uint16_t *b, int64_t bk, float *c) {
	if (type == TLK_BF16) half_rows_of(TLK_BF16, n, k, a, b, bk, c);
	else half_rows_of(TLK_F16, n, k, a, b, bk, c);
}

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
