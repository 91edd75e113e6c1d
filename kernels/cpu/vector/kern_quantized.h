// Products with panels of quantized weights: launch.Quantized.

#if TLK_VL == 16
#define TLK_PANEL_ROWS 12
#elif TLK_VL == 8 || defined(__aarch64__)
#define TLK_PANEL_ROWS 4
#else
#define TLK_PANEL_ROWS 2
#endif

typedef int32_t tl_vi32 __attribute__((vector_size(TLK_VL * 4), aligned(4), may_alias));

// The number in field j of words, sign-extended, as floats.
TLK_INLINE tl_v32 quantized_field(const int bits, tl_vi32 w, const int j) {
#if TLK_VL == 16
	// The instruction looks at the low four bits of an index only.
	if (bits == 4)
		return (tl_v32)_mm512_permutexvar_ps((__m512i)(w >> 4 * j),
			_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
#endif
	return __builtin_convertvector((w << (32 - bits * (j + 1))) >> (32 - bits), tl_v32);
}

// Adds the products of the fields of a row of words, up to count of them.
TLK_INLINE void quantized_words(const int bits, const int mr, const int count, const float *x, const int64_t xm,
	const uint32_t *w, tl_v32 t[TLK_PANEL_ROWS][TLK_PANEL / TLK_VL]) {
	tl_vi32 word[TLK_PANEL / TLK_VL];
	TLK_UNROLL for (int v = 0; v < TLK_PANEL / TLK_VL; v++) word[v] = *(const tl_vi32 *)(w + v * TLK_VL);
	TLK_UNROLL for (int j = 0; j < 32 / bits; j++) {
		if (j == count) return;
		TLK_UNROLL for (int v = 0; v < TLK_PANEL / TLK_VL; v++) {
			const tl_v32 f = quantized_field(bits, word[v], j);
			TLK_UNROLL for (int i = 0; i < mr; i++) t[i][v] += x[i * xm + j] * f;
		}
	}
}

// Sums of a group are multiplied by its scales once.
TLK_INLINE void quantized_rows(const int bits, const int mr, const tl_quantized *q, const int64_t K, const float *x,
	const int64_t xm, const float *sums, const int64_t sm, const uint32_t *w, const void *scale, const uint16_t *offset,
	float *c) {
	enum { VECTORS = TLK_PANEL / TLK_VL };
	const int each = 32 / bits;
	float factor[TLK_PANEL], shift[TLK_PANEL];
	TLK_UNROLL for (int i = 0; i < mr * VECTORS; i++) *(tl_v32 *)(c + i * TLK_VL) = (tl_v32){0};
	for (int64_t g = 0, k = 0; k < K; g++) {
		const int64_t end = k + q->group < K ? k + q->group : K;
		tl_v32 t[TLK_PANEL_ROWS][VECTORS];
		TLK_UNROLL for (int i = 0; i < mr; i++)
			TLK_UNROLL for (int v = 0; v < VECTORS; v++) t[i][v] = (tl_v32){0};
		for (; k + each <= end; k += each, w += TLK_PANEL) quantized_words(bits, mr, each, x + k, xm, w, t);
		if (k < end) {
			quantized_words(bits, mr, (int)(end - k), x + k, xm, w, t);
			w += TLK_PANEL;
			k = end;
		}
		if (bits == 8) memcpy(factor, (const float *)scale + g * TLK_PANEL, sizeof factor);
		else {
			const uint16_t *half = (const uint16_t *)scale + g * TLK_PANEL;
			for (int n = 0; n < TLK_PANEL; n++) factor[n] = tl_brain_to_float(half[n]);
		}
		TLK_UNROLL for (int i = 0; i < mr; i++)
			TLK_UNROLL for (int v = 0; v < VECTORS; v++)
				*(tl_v32 *)(c + i * TLK_PANEL + v * TLK_VL) += t[i][v] * *(tl_v32 *)(factor + v * TLK_VL);
		if (!offset) continue;
		for (int n = 0; n < TLK_PANEL; n++) shift[n] = tl_brain_to_float(offset[g * TLK_PANEL + n]);
		TLK_UNROLL for (int i = 0; i < mr; i++)
			TLK_UNROLL for (int v = 0; v < VECTORS; v++)
				*(tl_v32 *)(c + i * TLK_PANEL + v * TLK_VL) += sums[i * sm + g] * *(tl_v32 *)(shift + v * TLK_VL);
	}
}

// Tiles have all rows or one.
static void quantized_panel(const tl_quantized *q, int rows, int64_t K, const float *x, int64_t xm, const float *sums,
	int64_t sm, const uint32_t *w, const void *scale, const uint16_t *offset, float *c) {
#define TLK_QUANTIZED(bits, mr) quantized_rows(bits, mr, q, K, x, xm, sums, sm, w, scale, offset, c)
	if (rows == TLK_PANEL_ROWS) {
		if (q->bits == 8) TLK_QUANTIZED(8, TLK_PANEL_ROWS);
		else TLK_QUANTIZED(4, TLK_PANEL_ROWS);
		return;
	}
	for (int i = 0; i < rows; i++, x += xm, sums += sm, c += TLK_PANEL) {
		if (q->bits == 8) TLK_QUANTIZED(8, 1);
		else TLK_QUANTIZED(4, 1);
	}
}

#if defined(__x86_64__) && TLK_VL >= 8
// Two rows at a time; a sum is in two lanes until the end.
TLK_INLINE void int8_rows(const int mr, int64_t words, const int8_t *x, const int64_t xm, const uint32_t *w,
	int32_t *c) {
	__m256i t[2][4];
	TLK_UNROLL for (int i = 0; i < mr; i++) TLK_UNROLL for (int v = 0; v < 4; v++) t[i][v] = _mm256_setzero_si256();
	for (int64_t k = 0; k < words; k++, w += TLK_PANEL) {
		__m256i y[2];
		TLK_UNROLL for (int i = 0; i < mr; i++) {
			int32_t four;
			memcpy(&four, x + i * xm + 4 * k, 4);
			y[i] = _mm256_cvtepi8_epi16(_mm_set1_epi32(four));
		}
		TLK_UNROLL for (int v = 0; v < 4; v++) {
			const __m256i f = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 4 * v)));
			TLK_UNROLL for (int i = 0; i < mr; i++) t[i][v] = _mm256_add_epi32(t[i][v], _mm256_madd_epi16(f, y[i]));
		}
	}
	TLK_UNROLL for (int i = 0; i < mr; i++)
		TLK_UNROLL for (int v = 0; v < 4; v += 2)
			_mm256_storeu_si256((__m256i *)(c + i * TLK_PANEL + 4 * v),
				_mm256_permute4x64_epi64(_mm256_hadd_epi32(t[i][v], t[i][v + 1]), 0xd8));
}
#define TLK_INT8_EACH 2
#else
TLK_INLINE void int8_rows(const int mr, int64_t words, const int8_t *x, const int64_t xm, const uint32_t *w,
	int32_t *c) {
	const int8_t *f = (const int8_t *)w;
	(void)xm;
	(void)mr;
	memset(c, 0, 4 * TLK_PANEL);
	for (int64_t k = 0; k < words; k++, x += 4, f += 4 * TLK_PANEL)
		for (int n = 0; n < TLK_PANEL; n++)
			c[n] += x[0] * f[4 * n] + x[1] * f[4 * n + 1] + x[2] * f[4 * n + 2] + x[3] * f[4 * n + 3];
}
#define TLK_INT8_EACH 1
#endif

static void int8_panel(int rows, int64_t words, const int8_t *x, int64_t xm, const int32_t *sums, const uint32_t *w,
	int32_t *c) {
	(void)sums;
	int i = 0;
	for (; i + TLK_INT8_EACH <= rows; i += TLK_INT8_EACH)
		int8_rows(TLK_INT8_EACH, words, x + i * xm, xm, w, c + i * TLK_PANEL);
	for (; i < rows; i++) int8_rows(1, words, x + i * xm, xm, w, c + i * TLK_PANEL);
}
