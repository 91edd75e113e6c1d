// Functions of one double, as those of kern_math.h. Polynomials are minimax fits by Remez' exchange. math_test.go
// measures the error bounds.

// ln 2 in two parts; the first has 33 bits, so that up to 20 bits times it are exact.
#define TLK_LN2_HEAD 6.93147180369123816490e-01
#define TLK_LN2_TAIL 1.90821492927058770002e-10

// A double whose bits say 2^k.
static inline double tl_power64(uint64_t k) { return tl_asd((k + 1023) << 52); }

// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2.
static inline double tl_exp64_rest(double r) {
	double p = 2.51123362616836836e-08;
	p = p * r + 2.76222932159928942e-07;
	p = p * r + 2.75572352071807125e-06;
	p = p * r + 2.48015161851024082e-05;
	p = p * r + 1.98412698942587804e-04;
	p = p * r + 1.38888889206332080e-03;
	p = p * r + 8.33333333331898532e-03;
	p = p * r + 4.16666666666196950e-02;
	p = p * r + 1.66666666666666796e-01;
	return p * r + 0.5;
}

// Returns exp(r) - 1 and k with x = r + k ln 2, |r| <= ln 2 / 2, for |x| < 2^10: Cody and Waite, Software Manual for
// the Elementary Functions, 1980.
static inline double tl_exp64_reduced(double x, uint64_t *k) {
	double t = x * 1.44269504088896338700e+00 + TLK_ROUND64;
	double n = t - TLK_ROUND64;
	*k = tl_asl(t) - tl_asl(TLK_ROUND64);
	double r = x - n * TLK_LN2_HEAD - n * TLK_LN2_TAIL;
	return tl_exp64_rest(r) * (r * r) + r;
}

// exp: at most 1.1 ulp. The scale 2^k is applied in two halves, so that denormal results are right.
static inline double tl_exp64(double x) {
	x = x < -746.0 ? -746.0 : x;
	x = x > 710.0 ? 710.0 : x;
	uint64_t k;
	double p = tl_exp64_reduced(x, &k);
	uint64_t h = ((k + 4096) >> 1) - 2048;
	return (1.0 + p) * tl_power64(h) * tl_power64(k - h);
}

// Returns m in [sqrt(1/2), sqrt(2)) and e with x = 2^e m.
static inline double tl_split64(double x, double *e) {
	int tiny = x < 2.2250738585072014e-308;
	double y = tiny ? x * 18014398509481984.0 : x;
	uint64_t k = (tl_asl(y) - 0x3fe6a09e667f3bcdull + (UINT64_C(1024) << 52)) >> 52; // the exponent, plus 1024
	*e = (tiny ? -54.0 : 0.0) + (tl_asd(0x4330000000000000ull + k) - (4503599627370496.0 + 1024.0));
	return tl_asd(tl_asl(y) - ((k - 1024) << 52));
}

// log: at most 1.0 ulp. x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). With s = f / (2 + f), log(1 + f) is
// 2 artanh(s) = f - f^2/2 + s (f^2/2 + s^2 P(s^2)).
static inline double tl_log64(double x) {
	double e, f = tl_split64(x, &e) - 1.0;
	double s = f / (2.0 + f), z = s * s;
	double p = 1.47961058479370577e-01;
	p = p * z + 1.53140359097879347e-01;
	p = p * z + 1.81835648588916182e-01;
	p = p * z + 2.22221985637356262e-01;
	p = p * z + 2.85714287424713609e-01;
	p = p * z + 3.99999999994143429e-01;
	p = p * z + 6.66666666666673402e-01;
	double h = 0.5 * f * f;
	double r = e * TLK_LN2_HEAD - ((h - (s * (h + z * p) + e * TLK_LN2_TAIL)) - f);
	r = x == __builtin_inf() ? x : r;
	r = x == 0.0 ? -__builtin_inf() : r;
	return x >= 0.0 ? r : __builtin_nan("");
}

// tanh: at most 2.6 ulp. (exp(2x) - 1) / (exp(2x) + 1).
static inline double tl_tanh64(double x) {
	double t = tl_asd(tl_asl(x) & 0x7fffffffffffffffull);
	t = t > 22.0 ? 22.0 : t;
	uint64_t k;
	double p = tl_exp64_reduced(2.0 * t, &k), scale = tl_power64(k);
	double m = scale * p + (scale - 1.0);
	return tl_asd(tl_asl(m / (m + 2.0)) | (tl_asl(x) & 0x8000000000000000ull));
}

// erf: at most 1.5 ulp. x + x P(x^2) below 1, and 1 - exp(Q(x)) beyond, where Q fits log(erfc).
static inline double tl_erf64(double x) {
	double t = tl_asd(tl_asl(x) & 0x7fffffffffffffffull), z = x * x;
	double p = 5.94525769394154245e-11;
	p = p * z - 1.13656631366284926e-09;
	p = p * z + 1.46578789898888791e-08;
	p = p * z - 1.63500250762238817e-07;
	p = p * z + 1.64609728011907175e-06;
	p = p * z - 1.49255935057663636e-05;
	p = p * z + 1.20553310368466682e-04;
	p = p * z - 8.54832697874056751e-04;
	p = p * z + 5.22397762478083501e-03;
	p = p * z - 2.68661706450728927e-02;
	p = p * z + 1.12837916709548569e-01;
	p = p * z - 3.76126389031837483e-01;
	p = p * z + 1.28379167095512574e-01;
	double small = x + x * p;
	double c = t > 6.0 ? 6.0 : t;
	double q = -4.86517213059188793e-12;
	q = q * c + 2.02037196494356135e-10;
	q = q * c - 3.89006863330143694e-09;
	q = q * c + 4.59338572190312425e-08;
	q = q * c - 3.69570567619198487e-07;
	q = q * c + 2.11482935049469733e-06;
	q = q * c - 8.57890765584292787e-06;
	q = q * c + 2.25332844480422443e-05;
	q = q * c - 1.95238752072582450e-05;
	q = q * c - 1.36554064952044686e-04;
	q = q * c + 7.73042899592440297e-04;
	q = q * c - 1.91894543111092910e-03;
	q = q * c + 4.13536425030764049e-04;
	q = q * c + 1.89880421013580089e-02;
	q = q * c - 1.02702289810244457e-01;
	q = q * c - 6.36644055104343298e-01;
	q = q * c - 1.12837399170789343e+00;
	q = q * c - 5.13242013845002879e-07;
	double big = 1.0 - tl_exp64(q);
	big = tl_asd(tl_asl(big) | (tl_asl(x) & 0x8000000000000000ull));
	return t < 1.0 ? small : big;
}

// sin (shift 0) and cos (shift 1): at most 0.8 ulp for |x| <= TLK_TRIG_MAX. Cody-Waite reduction by pi/2 in three parts
// of 33 bits and a fourth one, where n times each of the first three is exact. r + low is the reduced argument. Then a
// polynomial for the quadrant. Greater arguments go to the C library.
static inline double tl_trig64(double x, uint64_t shift) {
	double t = x * 0.63661977236758134308 + TLK_ROUND64;
	double n = t - TLK_ROUND64;
	uint64_t k = tl_asl(t) + shift;
	double r1 = x - n * 1.57079632673412561417e+00;
	double r2 = r1 - n * 6.07710050630396597660e-11;
	double low = ((r2 - r1) + n * 6.07710050630396597660e-11);
	double r3 = r2 - n * 2.02226624871116645580e-21;
	low += ((r3 - r2) + n * 2.02226624871116645580e-21) + n * 8.47842766036889956997e-32;
	double r = r3 - low;
	low = (r3 - r) - low;
	double z = r * r;
	double s = 1.58968113351682155e-10;
	s = s * z - 2.50507583779457928e-08;
	s = s * z + 2.75573136935465218e-06;
	s = s * z - 1.98412698298123776e-04;
	s = s * z + 8.33333333332242007e-03;
	s = s * z - 1.66666666666666324e-01;
	double h = 0.5 * z;
	s = r + (r * z * s + low * (1.0 - h));
	double c = -1.13596588848707538e-11;
	c = c * z + 2.08757234807237592e-09;
	c = c * z - 2.75573143538086459e-07;
	c = c * z + 2.48015872894871039e-05;
	c = c * z - 1.38888888888741313e-03;
	c = c * z + 4.16666666666666019e-02;
	double w = 1.0 - h;
	c = w + (((1.0 - w) - h) + (z * z * c - r * low));
	double v = (k & 1) ? c : s;
	v = tl_asd(tl_asl(v) ^ ((k & 2) << 62));
	return !shift && x == 0.0 ? x : v;
}

#if TLK_VL > 4 || defined(__aarch64__) // with fused multiply-add
// A number in two parts, of which low is at most half an ulp of high.
typedef struct { double high, low; } tl_two;

// log2 of a positive number, with an error of 2^-65 of it: tl_log64 with s and the sum in two parts, as
// 2 / ln 2 (s + s z / 3 + s z^2 P(z)).
static inline tl_two tl_log2_two(double x) {
	double e, m = tl_split64(x, &e), f = m - 1.0, d = m + 1.0;
	double s = f / d, sl = (__builtin_fma(-s, d, f) - s * (m - (d - 1.0))) / d;
	double z = s * s, zl = __builtin_fma(s, s, -z) + 2.0 * s * sl;
	double p = 5.99450111697967949e-02;
	p = p * z + 5.83740994151003232e-02;
	p = p * z + 6.66815867414573735e-02;
	p = p * z + 7.69227843645243203e-02;
	p = p * z + 9.09090943514296164e-02;
	p = p * z + 1.11111111087683514e-01;
	p = p * z + 1.42857142857225564e-01;
	p = p * z + 1.99999999999999900e-01;
	p = p * (z * z);
	const double third = 0.3333333333333333, third_low = 1.850371707708594e-17;
	double q = z * third, w = q + p;
	double wl = ((q - w) + p) + (__builtin_fma(z, third, -q) + (z * third_low + zl * third));
	double t = s * w, l = s + t;
	double ll = ((s - l) + t) + (__builtin_fma(s, w, -t) + (s * wl + sl * w) + sl);
	const double scale = 2.8853900817779268, scale_low = 4.0710547481862066e-17;
	double g = l * scale, h = e + g;
	return (tl_two){h, ((e - h) + g) + (__builtin_fma(l, scale, -g) + (l * scale_low + ll * scale))};
}

// 2^(t.high + t.low): at most 0.9 ulp, of a denormal result 1 ulp, and exact for whole numbers.
static inline double tl_exp2_two(tl_two t) {
	double h = t.high, l = t.low;
	int near = h > -1100.0 && h < 1100.0;
	l = near ? l : 0.0;
	h = h > -1100.0 ? h : -1100.0;
	h = h < 1100.0 ? h : 1100.0;
	double n = h + TLK_ROUND64;
	uint64_t k = tl_asl(n) - tl_asl(TLK_ROUND64), half = ((k + 4096) >> 1) - 2048;
	double v = (h - (n - TLK_ROUND64)) + l, r = v * 0.6931471805599453;
	double low = __builtin_fma(v, 2.3190468138462996e-17, __builtin_fma(v, 0.6931471805599453, -r));
	low = __builtin_fma(tl_exp64_rest(r), r * r, low);
	double one = 1.0 + r;
	return (one + (((1.0 - one) + r) + low)) * tl_power64(half) * tl_power64(k - half);
}

// pow of a finite x other than 0 and a finite y: at most 0.9 ulp, of a denormal result 1 ulp.
static inline double tl_pow64(double x, double y) {
	tl_two l = tl_log2_two(tl_asd(tl_asl(x) & 0x7fffffffffffffffull));
	double t = y * l.high;
	double r = tl_exp2_two((tl_two){t, __builtin_fma(y, l.high, -t) + y * l.low});
	double whole = __builtin_rint(y), half = 0.5 * whole;
	double negative = whole != y ? __builtin_nan("") : __builtin_rint(half) != half ? -r : r;
	return x < 0.0 ? negative : r;
}

// 2^y of any y, with the bits of tl_pow64(2, y).
static inline double tl_exp2_64(double y) {
	double r = tl_exp2_two((tl_two){y, 0.0});
	return y == y ? r : y;
}
#else
static inline double tl_pow64(double x, double y) { return pow(x, y); }
static inline double tl_exp2_64(double y) { return pow(2.0, y); }
#endif
