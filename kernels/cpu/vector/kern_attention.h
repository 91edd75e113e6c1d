// The row functions of attention, in the compiler's vector types. Rows are padded to whole pairs of vectors. Padding is
// -inf as a score and 0 as a weight.

typedef int32_t tl_vi32 __attribute__((vector_size(TLK_VL * 4), aligned(4), may_alias));

TLK_INLINE tl_v32 attention_max(tl_v32 x, tl_v32 y) {
	tl_vi32 k = x > y;
	return (tl_v32)(((tl_vi32)x & k) | ((tl_vi32)y & ~k));
}

// s[0..n) = exp(s - top); returns the sum.
TLK_INLINE float attention_exp(float *s, int64_t n, float top) {
	TLK_VEC for (int64_t j = 0; j < n; j++) s[j] = tl_expf(s[j] - top);
	tl_v32 a = {0}, b = {0};
	for (int64_t j = 0; j < n; j += 2 * TLK_VL) {
		a += *(const tl_v32 *)(s + j);
		b += *(const tl_v32 *)(s + j + TLK_VL);
	}
	a += b;
	float sum = 0;
	for (int l = 0; l < TLK_VL; l++) sum += a[l];
	return sum;
}

// One step of the online softmax (Milakov and Gimelshein, 2018). A block of n scores of each row becomes exp(score -
// the greatest so far). The row's sum and its w columns of out are scaled to the new greatest.
static void attention_softmax(int64_t rows, int64_t n, float *s, int64_t ld, float *top, float *sum, float *out,
	int64_t w) {
	for (int64_t r = 0; r < rows; r++, s += ld, out += w) {
		tl_v32 a = *(const tl_v32 *)s, b = *(const tl_v32 *)(s + TLK_VL);
		for (int64_t j = 2 * TLK_VL; j < n; j += 2 * TLK_VL) {
			a = attention_max(*(const tl_v32 *)(s + j), a);
			b = attention_max(*(const tl_v32 *)(s + j + TLK_VL), b);
		}
		a = attention_max(a, b);
		float m = top[r];
		for (int l = 0; l < TLK_VL; l++) m = a[l] > m ? a[l] : m;
		float base = m == -__builtin_inff() ? 0.0f : m;
		if (m != top[r]) {
			float f = tl_expf(top[r] - base);
			sum[r] *= f;
			TLK_VEC for (int64_t j = 0; j < w; j++) out[j] *= f;
			top[r] = m;
		}
		sum[r] += attention_exp(s, n, base);
	}
}

// Replaces the scores by weights exp(score - lse), and dp, the cotangents of the weights, by those of the scores:
// weight * (dp - delta). lse and delta have an entry for each row or, if columns is set, for each column.
static void attention_weights(int64_t rows, int64_t n, float *s, float *dp, int64_t ld, const float *lse,
	const float *delta, int columns) {
	for (int64_t r = 0; r < rows; r++, s += ld, dp += ld) {
		if (columns) {
			TLK_VEC for (int64_t j = 0; j < n; j++) {
				float p = tl_expf(s[j] - lse[j]);
				s[j] = p;
				dp[j] = p * (dp[j] - delta[j]);
			}
			continue;
		}
		float x = lse[r], y = delta[r];
		TLK_VEC for (int64_t j = 0; j < n; j++) {
			float p = tl_expf(s[j] - x);
			s[j] = p;
			dp[j] = p * (dp[j] - y);
		}
	}
}
