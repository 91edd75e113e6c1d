// Products with panels of quantized weights: launch.Quantized.

// A tile is some rows and a panel, or a row and some panels. The sums of a row and a panel are a chain of additions, so
// that the panel is read at the rate of that chain; those of several panels go on beside each other.
#if TLK_VL == 16
#define TLK_PANEL_ROWS 12
#define TLK_ROW_PANELS 4
#elif TLK_VL == 8 || defined(__aarch64__)
#define TLK_PANEL_ROWS 4
#define TLK_ROW_PANELS 4
#else
#define TLK_PANEL_ROWS 2
#define TLK_ROW_PANELS 2
#endif
#define TLK_PANEL_TILES (TLK_PANEL_ROWS > TLK_ROW_PANELS ? TLK_PANEL_ROWS : TLK_ROW_PANELS)

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

// Adds the products of the fields of a row of words, up to count of them. mr rows, or mr panels wm words apart.
TLK_INLINE void quantized_words(const int bits, const int mr, const int panels, const int count, const float *x,
	const int64_t xm, const uint32_t *w, const int64_t wm, tl_v32 t[TLK_PANEL_TILES][TLK_PANEL / TLK_VL]) {
	enum { VECTORS = TLK_PANEL / TLK_VL };
	const int lines = panels ? mr : 1;
	tl_vi32 word[VECTORS];
	TLK_UNROLL for (int p = 0; p < lines; p++) {
		TLK_UNROLL for (int v = 0; v < VECTORS; v++) word[v] = *(const tl_vi32 *)(w + p * wm + v * TLK_VL);
		TLK_UNROLL for (int j = 0; j < 32 / bits; j++) {
			if (j == count) break;
			TLK_UNROLL for (int v = 0; v < VECTORS; v++) {
				const tl_v32 f = quantized_field(bits, word[v], j);
				if (panels) t[p][v] += x[j] * f;
				else TLK_UNROLL for (int i = 0; i < mr; i++) t[i][v] += x[i * xm + j] * f;
			}
		}
	}
}

// mr rows of x and a panel, or one row and mr panels; c has the columns of one after the other. Sums of a group are
// multiplied by its scales once.
TLK_INLINE void quantized_tile(const int bits, const int mr, const int panels, const tl_quantized *q, const int64_t K,
	const float *x, const int64_t xm, const float *sums, const int64_t sm, const uint32_t *w, const void *scale,
	const uint16_t *offset, float *c) {
	enum { VECTORS = TLK_PANEL / TLK_VL };
	const int each = 32 / bits;
	const int64_t groups = (K + q->group - 1) / q->group, gm = panels ? groups * TLK_PANEL : 0;
	const int64_t wm = bits == 8 ? (K + TLK_TERMS - 1) / TLK_TERMS * TLK_TERMS / 4 * TLK_PANEL : (K + 7) / 8 * TLK_PANEL;
	tl_v32 total[TLK_PANEL_TILES][VECTORS];
	TLK_UNROLL for (int i = 0; i < mr; i++)
		TLK_UNROLL for (int v = 0; v < VECTORS; v++) total[i][v] = (tl_v32){0};
	for (int64_t g = 0, k = 0; k < K; g++) {
		const int64_t end = k + q->group < K ? k + q->group : K;
		tl_v32 t[TLK_PANEL_TILES][VECTORS];
		TLK_UNROLL for (int i = 0; i < mr; i++)
			TLK_UNROLL for (int v = 0; v < VECTORS; v++) t[i][v] = (tl_v32){0};
		for (; k + each <= end; k += each, w += TLK_PANEL) quantized_words(bits, mr, panels, each, x + k, xm, w, wm, t);
		if (k < end) {
			quantized_words(bits, mr, panels, (int)(end - k), x + k, xm, w, wm, t);
			w += TLK_PANEL;
			k = end;
		}
		TLK_UNROLL for (int i = 0; i < mr; i++)
			TLK_UNROLL for (int v = 0; v < VECTORS; v++) {
				const int64_t at = g * TLK_PANEL + i * gm + v * TLK_VL;
				if (bits == 8) {
					tl_v32 factor;
					memcpy(&factor, (const float *)scale + at, sizeof factor);
					total[i][v] += t[i][v] * factor;
				} else total[i][v] += t[i][v] * brain_vector((const uint16_t *)scale + at);
				if (offset) total[i][v] += sums[(panels ? 0 : i * sm) + g] * brain_vector(offset + at);
			}
	}
	TLK_UNROLL for (int i = 0; i < mr; i++)
		TLK_UNROLL for (int v = 0; v < VECTORS; v++)
			memcpy(c + i * TLK_PANEL + v * TLK_VL, &total[i][v], sizeof total[i][v]);
}

// Tiles of rows have all rows, TLK_TILE_ROWS or one; tiles of panels all panels or one.
static void quantized_panel(const tl_quantized *q, int rows, int panels, int64_t K, const float *x, int64_t xm,
	const float *sums, int64_t sm, const uint32_t *w, const void *scale, const uint16_t *offset, float *c) {
#define TLK_QUANTIZED(bits, mr, panels) \
	quantized_tile(bits, mr, panels, q, K, x, xm, sums, sm, w, scale, offset, c)
	if (rows == TLK_PANEL_ROWS || panels == TLK_ROW_PANELS) {
		if (q->bits == 8 && panels == 1) TLK_QUANTIZED(8, TLK_PANEL_ROWS, 0);
		else if (q->bits == 8) TLK_QUANTIZED(8, TLK_ROW_PANELS, 1);
		else if (panels == 1) TLK_QUANTIZED(4, TLK_PANEL_ROWS, 0);
		else TLK_QUANTIZED(4, TLK_ROW_PANELS, 1);
		return;
	}
	if (TLK_PANEL_ROWS > TLK_TILE_ROWS && rows == TLK_TILE_ROWS) {
		if (q->bits == 8) TLK_QUANTIZED(8, TLK_TILE_ROWS, 0);
		else TLK_QUANTIZED(4, TLK_TILE_ROWS, 0);
		return;
	}
	for (int i = 0; i < rows; i++, x += xm, sums += sm, c += TLK_PANEL) {
		if (q->bits == 8) TLK_QUANTIZED(8, 1, 0);
		else TLK_QUANTIZED(4, 1, 0);
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
