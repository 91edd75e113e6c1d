// Functions of one lane, without branches, so that the compiler vectorises loops over them. Polynomials are minimax
// fits, made for this file by Lawson's iteration. math_test.go measures the error bounds, which are in units in the
// last place (ulp).

#include "half.h"

// GCC assumes that roots set errno before it reads the pragma that denies it, and then keeps loops scalar. These
// declarations say that roots set nothing.
__attribute__((const)) float sqrtf(float);
__attribute__((const)) double sqrt(double);

static inline double tl_asd(uint64_t u) { double f; __builtin_memcpy(&f, &u, 8); return f; }
static inline uint64_t tl_asl(double f) { uint64_t u; __builtin_memcpy(&u, &f, 8); return u; }

// Round to the nearest integer by adding and subtracting 1.5 * 2^23 (1.5 * 2^52); the sum's low bits hold the integer.
#define TLK_ROUND32 12582912.0f
#define TLK_ROUND64 6755399441055744.0

// Returns exp(r) and k with x = r + k ln 2, |r| <= ln 2 / 2: Cody and Waite, Software Manual for the Elementary
// Functions, 1980. ln 2 is split into two parts, of which the first has few bits, so that n times it is exact.
static inline float tl_exp_reduced(float x, int32_t *k) {
	float t = x * 1.44269504f + TLK_ROUND32;
	float n = t - TLK_ROUND32;
	*k = (int32_t)(tl_asu(t) - 0x4B400000u);
	float r = x - n * 0.693359375f;
	r = r + n * 2.12194440e-4f;
	float p = 1.991938043e-04f;
	p = p * r + 1.394722494e-03f;
	p = p * r + 8.333262987e-03f;
	p = p * r + 4.166625440e-02f;
	p = p * r + 1.666666716e-01f;
	p = p * r + 0.5f;
	p = p * (r * r) + r;
	return p + 1.0f;
}

// exp: at most 1.1 ulp. The scale 2^k is applied in two halves, so that denormal results are right.
static inline float tl_expf(float x) {
	x = x < -104.0f ? -104.0f : x;
	x = x > 89.0f ? 89.0f : x;
	int32_t k;
	float p = tl_exp_reduced(x, &k);
	int32_t h = k >> 1;
	return p * tl_asf((uint32_t)(h + 127) << 23) * tl_asf((uint32_t)(k - h + 127) << 23);
}

// exp of x in [-80, 80]. NaN gives NaN.
static inline float tl_exp_near(float x) {
	int32_t k;
	float p = tl_exp_reduced(x, &k);
	return p * tl_asf((uint32_t)(k + 127) << 23);
}

// log: at most 1.0 ulp. x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log x = e ln 2 + f - f^2/2 + f^3 P(f), the
// form of Cephes' logf.
static inline float tl_logf(float x) {
	float y = x < 1.17549435e-38f ? x * 8388608.0f : x;
	float e = x < 1.17549435e-38f ? -23.0f : 0.0f;
	uint32_t ix = tl_asu(y) - 0x3f3504f3u;
	int32_t k = (int32_t)ix >> 23;
	float f = tl_asf(tl_asu(y) - ((uint32_t)k << 23)) - 1.0f;
	e += (float)k;
	float p = 6.917822361e-02f;
	p = p * f - 1.183293313e-01f;
	p = p * f + 1.189412773e-01f;
	p = p * f - 1.237877086e-01f;
	p = p * f + 1.421528459e-01f;
	p = p * f - 1.666944772e-01f;
	p = p * f + 2.000238746e-01f;
	p = p * f - 2.499998510e-01f;
	p = p * f + 3.333330750e-01f;
	float s = f * f;
	float r = f * s * p;
	r = r - e * 2.12194440e-4f;
	r = r - 0.5f * s;
	r = r + f;
	r = r + e * 0.693359375f;
	r = x == 0.0f ? -__builtin_inff() : r;
	r = x < 0.0f ? __builtin_nanf("") : r;
	return x < __builtin_inff() ? r : x; // +inf and NaN
}

// tanh: at most 1.4 ulp. x + x^3 P(x^2) below 0.625, and 1 - 2 / (exp(2x) + 1) beyond, the form of Cephes' tanhf. With
// 2x = (n + f) ln 2, exp(2x) + 1 is 2^n f B(f) + (2^n + 1). B is evaluated in pairs: loops wait for its latency.
static inline float tl_tanhf(float x) {
	float t = tl_asf(tl_asu(x) & 0x7fffffffu);
	float z = x * x;
	float p = 2.137162723e-03f;
	p = p * z - 8.171704598e-03f;
	p = p * z + 2.169869095e-02f;
	p = p * z - 5.394645408e-02f;
	p = p * z + 1.333320439e-01f;
	p = p * z - 3.333333135e-01f;
	float small = x + x * (z * p);
	float c = t > 16.0f ? 16.0f : t;
	float y = c * 2.88539008f + TLK_ROUND32;
	float f = c * 2.88539008f - (y - TLK_ROUND32);
	float n = tl_asf((tl_asu(y) << 23) + 0x3f800000u);
	float f2 = f * f;
	float b = (f * 9.618438780e-03f + 5.550331995e-02f) * f2 + (f * 2.402264774e-01f + 6.931471825e-01f);
	b = (f * 1.535325719e-04f + 1.339900307e-03f) * (f2 * f2) + b;
	float big = 1.0f - 2.0f / (b * (n * f) + (n + 1.0f));
	big = tl_asf(tl_asu(big) | (tl_asu(x) & 0x80000000u));
	return t < 0.625f ? small : big;
}

// erf: at most 1.2 ulp. x + x P(x^2) below 0.93, and 1 - exp(Q(x) - x) beyond.
static inline float tl_erff(float x) {
	float t = tl_asf(tl_asu(x) & 0x7fffffffu);
	float z = x * x;
	float p = 8.345225069e-05f;
	p = p * z - 8.137437399e-04f;
	p = p * z + 5.200634245e-03f;
	p = p * z - 2.685927041e-02f;
	p = p * z + 1.128369421e-01f;
	p = p * z - 3.761263490e-01f;
	p = p * z + 1.283791661e-01f;
	float small = x + x * p;
	float c = t > 4.0f ? 4.0f : t;
	float q = -2.096545177e-05f;
	q = q * c + 4.329672083e-04f;
	q = q * c - 4.163833801e-03f;
	q = q * c + 2.510043979e-02f;
	q = q * c - 1.082508117e-01f;
	q = q * c - 6.333734393e-01f;
	q = q * c - 1.295018494e-01f;
	q = q * c + 1.719745196e-04f;
	float big = 1.0f - tl_exp_near(q - c);
	big = tl_asf(tl_asu(big) | (tl_asu(x) & 0x80000000u));
	return t < 0.93f ? small : big;
}

// Largest argument of the reduction in tl_trigf: n stays within 20 bits, so that its product with the 33-bit head of
// pi/2 is exact.
#define TLK_TRIG_MAX 1.0e6f

// sin (shift 0) and cos (shift 1): at most 0.51 ulp for |x| <= TLK_TRIG_MAX. Cody-Waite reduction by pi/2 in two parts,
// then a polynomial for the quadrant. In double, since polynomials in float would leave 1.5 ulp. Greater arguments go
// to the C library (glibc: 0.56 ulp).
static inline float tl_trigf(float x, uint32_t shift) {
	double d = x;
	double t = d * 0.63661977236758134308 + TLK_ROUND64;
	double n = t - TLK_ROUND64;
	uint32_t k = (uint32_t)(int32_t)n + shift;
	double r = d - n * 1.57079632673412561417 - n * 6.07710050650619224932e-11;
	double z = r * r;
	double s = 2.71756441170088102e-06;
	s = s * z - 1.98392566283933517e-04;
	s = s * z + 8.33332914389410193e-03;
	s = s * z - 1.66666666395576146e-01;
	s = r + r * (z * s);
	double c = -2.72033033765001749e-07;
	c = c * z + 2.47994364030597575e-05;
	c = c * z - 1.38888834384018746e-03;
	c = c * z + 4.16666666192039292e-02;
	c = 1.0 - 0.5 * z + z * z * c;
	float v = (float)((k & 1) ? c : s);
	return tl_asf(tl_asu(v) ^ ((k & 2) << 30));
}

// 2^t, rounded to float.
static inline float tl_exp2_wide(double t) {
	t = t < -160.0 ? -160.0 : t;
	t = t > 140.0 ? 140.0 : t;
	double w = t + TLK_ROUND64;
	double r = t - (w - TLK_ROUND64);
	double p = 6.95040603295382732e-09;
	p = p * r + 1.02086442000858250e-07;
	p = p * r + 1.32162794245242815e-06;
	p = p * r + 1.52526586480250862e-05;
	p = p * r + 1.54035284350565512e-04;
	p = p * r + 1.33335582257912595e-03;
	p = p * r + 9.61812910954964843e-03;
	p = p * r + 5.55041086644776638e-02;
	p = p * r + 2.40226506959039104e-01;
	p = p * r + 6.93147180559950393e-01;
	p = p * r + 1.0;
	return (float)(p * tl_asd((tl_asl(w) << 52) + 0x3ff0000000000000ull));
}

// pow for 0 < a < inf and finite b: at most 0.51 ulp. 2^(b log2 a) in double; log2 m = 2/ln 2 * atanh((m-1)/(m+1)).
static inline float tl_powf(float a, float b) {
	uint64_t ia = tl_asl((double)a);
	uint64_t ix = ia - 0x3fe6a09e667f3bcdull; // bits of sqrt(1/2): m lies in [sqrt(1/2), sqrt(2))
	int32_t e = (int32_t)(uint32_t)(ix >> 32) >> 20;
	double m = tl_asd(ia - ((uint64_t)(uint32_t)e << 52));
	double s = (m - 1.0) / (m + 1.0), z = s * s;
	double q = 6.85845367174733739e-02;
	q = q * z + 7.71170734498274335e-02;
	q = q * z + 9.08965780131198858e-02;
	q = q * z + 1.11111388699268898e-01;
	q = q * z + 1.42857140095922069e-01;
	q = q * z + 2.00000000011696433e-01;
	q = q * z + 3.33333333333317883e-01;
	double l = (double)e + 2.88539008177792681472 * (s + s * (z * q));
	return tl_exp2_wide((double)b * l);
}

// 2^b of any b, with the bits of tl_powf(2, b).
static inline float tl_exp2f(float b) { return tl_exp2_wide((double)b); }

#if defined(__aarch64__)
// Converts four at a time, since GCC 12 does not vectorise __fp16. Returns how many elements are done.
static inline int64_t tl_fours_to_half(uint16_t *p, const float *v, int64_t n) {
	int64_t i = 0;
	for (; i + 4 <= n; i += 4) vst1_u16(p + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(v + i))));
	return i;
}
#else
#define tl_fours_to_half(p, v, n) 0
#endif

static inline int64_t tl_powi(int64_t a, int64_t b) {
	if (b < 0) return a == 1 ? 1 : a == -1 ? 1 - 2 * (b & 1) : 0;
	uint64_t r = 1, x = (uint64_t)a;
	for (; b > 0; b >>= 1) {
		if (b & 1) r *= x;
		x *= x;
	}
	return (int64_t)r;
}

static inline uint64_t tl_powu(uint64_t x, uint64_t b) {
	uint64_t r = 1;
	for (; b > 0; b >>= 1) {
		if (b & 1) r *= x;
		x *= x;
	}
	return r;
}
