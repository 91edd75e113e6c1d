// Random words: loopir.OpDraw.

// 64-bit lanes, each with a word in its low half. The high half is left over from products.
#define TLK_WORDS (TLK_VL / 2)
typedef uint64_t tl_words __attribute__((vector_size(TLK_VL * 4)));

// The products of the low halves.
TLK_INLINE tl_words words_product(tl_words a, tl_words b) {
#if TLK_VL == 16
	return (tl_words)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif TLK_VL == 8
	return (tl_words)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
	return (tl_words)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
	return (tl_words)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
	return (a & UINT32_MAX) * (b & UINT32_MAX);
#endif
}

// Philox4x32-10 (Salmon et al., SC 2011) of blocks from first on, two words in each element of w, the first one in the
// low half: count blocks, rounded up to TLK_PHILOX. So many go beside each other, for the rounds of one wait for each
// other.
static void philox_run(uint64_t first, uint64_t draw_offset, uint64_t seed, int64_t count, uint64_t *w) {
	enum { VECTORS = TLK_PHILOX / TLK_WORDS };
	const tl_words zero = {0};
	for (int64_t b = 0; b < count; b += TLK_PHILOX) {
		tl_words c[VECTORS][4];
		for (int v = 0; v < VECTORS; v++) {
			tl_words n = zero + first + (uint64_t)b;
			for (int j = 0; j < TLK_WORDS; j++) n[j] += (uint64_t)(v * TLK_WORDS + j);
			c[v][0] = n, c[v][1] = n >> 32, c[v][2] = zero + draw_offset, c[v][3] = zero + (draw_offset >> 32);
		}
		uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
		for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
			for (int v = 0; v < VECTORS; v++) {
				tl_words p = words_product(c[v][0], zero + 0xD2511F53u);
				tl_words q = words_product(c[v][2], zero + 0xCD9E8D57u);
				c[v][0] = (q >> 32) ^ c[v][1] ^ (zero + k0), c[v][1] = q;
				c[v][2] = (p >> 32) ^ c[v][3] ^ (zero + k1), c[v][3] = p;
			}
		for (int v = 0; v < VECTORS; v++) {
			tl_words low = (c[v][0] & UINT32_MAX) | c[v][1] << 32, high = (c[v][2] & UINT32_MAX) | c[v][3] << 32;
			for (int j = 0; j < TLK_WORDS; j++, w += 2) w[0] = low[j], w[1] = high[j];
		}
	}
}

// The parts of a stream's elements, in the order of loopir.DrawPart. Consecutive elements share their blocks.
#define TLK_DRAWN 256
TLK_ARG draw TLK_P {
	enum { PAIRS = TLK_DRAWN / 2 + 2 * TLK_PHILOX };
	const int32_t *out = c->k->extra + q->aux;
	uint64_t w[3][PAIRS]; // pairs of words: of the elements, the first one twice, the second one twice
	for (int64_t i = 0, n = c->n[q->lanes], m; n > 0; i += m, n -= m) {
		const uint64_t *e = (const uint64_t *)c->reg[q->a] + i, *h = (const uint64_t *)c->reg[q->b] + i;
		const uint64_t *k = (const uint64_t *)c->reg[q->c] + i;
		uint64_t other = 0;
		m = n < TLK_DRAWN ? n : TLK_DRAWN;
		TLK_VEC for (int64_t j = 0; j < m; j++) other |= (e[j] - e[0] - (uint64_t)j) | (h[j] ^ h[0]) | (k[j] ^ k[0]);
		if (other)
			for (m = 1; e[m] - e[0] == (uint64_t)m && h[m] == h[0] && k[m] == k[0]; m++) {}
		int64_t skip = (int64_t)(e[0] & 3), pairs = (skip + m + 1) / 2;
		if (out[0] >= 0 || out[1] >= 0 || out[2] >= 0) philox_run(e[0] / 4, h[0], k[0], (pairs + 1) / 2, w[0]);
		if (out[1] >= 0) TLK_VEC for (int64_t j = 0; j < pairs; j++) w[1][j] = (w[0][j] & UINT32_MAX) | w[0][j] << 32;
		if (out[2] >= 0) TLK_VEC for (int64_t j = 0; j < pairs; j++) w[2][j] = w[0][j] >> 32 | w[0][j] >> 32 << 32;
		for (int part = 0; part < 3; part++)
			if (out[part] >= 0)
				memcpy((uint32_t *)c->reg[out[part]] + i, (const uint32_t *)w[part] + skip, (size_t)m * sizeof(uint32_t));
		if (out[3] < 0) continue;
		uint32_t *odd = (uint32_t *)c->reg[out[3]] + i;
		TLK_VEC for (int64_t j = 0; j < m; j++) odd[j] = (uint32_t)(j + skip) & 1;
	}
}
