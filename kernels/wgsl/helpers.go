package wgsl

import (
	"fmt"
	"strings"

	"github.com/torchlette/torchlette/ir"
)

// helper adds a helper function to the module where it is missing, and returns its name.
func (w *writer) helper(name string, t ir.DType, width int) string {
	full := name
	if w := width; w == 4 || !soleForm[name] {
		full = fmt.Sprintf("%s_%s", name, typeName(t, 1))
		if w == 4 {
			full += "x4"
		}
	}
	if w.helpers[full] {
		return full
	}
	w.helpers[full] = true
	form := name
	if name == "our_exp" && w.o.Poly&FuncExp2 == 0 {
		form = "exp_of_exp2"
	}
	src, ok := helperText[form]
	if !ok {
		w.fail("no helper %s", name)
		return full
	}
	// What a helper needs comes first. WGSL does not require that; it helps readers.
	for _, need := range helperNeeds[form] {
		w.helper(need, t, width)
	}
	suffix := strings.TrimPrefix(full, name)
	bits := "32"
	if t == ir.I64 {
		bits = "64"
	}
	r := strings.NewReplacer("{name}", full, "{T}", typeName(t, width), "{B}", typeName(ir.Bool, width),
		"{U}", typeName(ir.U32, width), "{I}", typeName(ir.I32, width), "{x}", suffix, "{bits}", bits)
	w.funcs = append(w.funcs, r.Replace(strings.TrimLeft(src, "\n")))
	return full
}

// soleForm are the helpers that exist for one type only; their names have no type.
var soleForm = map[string]bool{"from_bits": true, "half_bits": true, "brain_bits": true}

var helperNeeds = map[string][]string{
	"min_nan": {"is_nan"}, "max_nan": {"is_nan"}, "tanh_safe": {"is_nan"}, "erf": {"is_nan", "our_exp"},
	"pow_float": {"is_nan"}, "our_tanh": {"is_nan", "our_exp"}, "our_exp": {"is_nan"}, "our_log": {"is_nan"},
	"our_sin": {"sincos"}, "our_cos": {"sincos"},
	"log_add": {"is_nan", "our_exp", "our_log"},
}

// helperText is the text of each helper. {T}, {B}, {U} and {I} are the operand, bool, u32 and i32 types of the same
// width; {x} is the suffix of other helpers' names.
//
// Polynomials are our own fits at Chebyshev nodes. Beside each is a bound on the error of its float32 evaluation, which
// tests check.
var helperText = map[string]string{
	"from_bits": `
fn {name}(x: u32) -> f32 {
  return bitcast<f32>(x);
}
`,
	// NaN by its bits: compilers may assume x == x.
	"is_nan": `
fn {name}(x: {T}) -> {B} {
  return (bitcast<{U}>(x) & {U}(0x7fffffffu)) > {U}(0x7f800000u);
}
`,
	"min_nan": `
fn {name}(a: {T}, b: {T}) -> {T} {
  return select(select(min(a, b), b, is_nan{x}(b)), a, is_nan{x}(a));
}
`,
	"max_nan": `
fn {name}(a: {T}, b: {T}) -> {T} {
  return select(select(max(a, b), b, is_nan{x}(b)), a, is_nan{x}(a));
}
`,
	"div_int": `
fn {name}(a: {T}, b: {T}) -> {T} {
  let none = b == {T}(0);
  return select(a / select(b, {T}(1), none), {T}(0), none);
}
`,
	// By division, since NVIDIA's driver 580 gets % of negative operands wrong.
	"rem_int": `
fn {name}(a: {T}, b: {T}) -> {T} {
  let none = b == {T}(0);
  let d = select(b, {T}(1), none);
  return select(a - (a / d) * d, {T}(0), none);
}
`,
	// The quotient may be off by one: the remainder is corrected into (-|b|, |b|) with a's sign.
	"rem_float": `
fn {name}(a: {T}, b: {T}) -> {T} {
  let y = abs(b);
  let x = abs(a);
  var r = fma(-trunc(x / y), y, x);
  r = select(r, r + y, r < {T}(0.0));
  r = select(r, r - y, r >= y);
  r = select(r, x, x < y);
  return select(r, -r, (bitcast<{U}>(a) >> {U}(31u)) != {U}(0u));
}
`,
	"shl_int": `
fn {name}(a: {T}, b: {T}) -> {T} {
  return select(a << ({U}(b) & {U}({bits}u - 1u)), {T}(0), {U}(b) >= {U}({bits}u));
}
`,
	"shr_int": `
fn {name}(a: {T}, b: {T}) -> {T} {
  let top = {U}({bits}u - 1u);
  let n = {U}(b);
  let far = n > top;
  return select(a >> min(n, top), select({T}(0), ~{T}(0), a < {T}(0)), far);
}
`,
	"shuffle_xor": `
fn {name}(x: {T}, mask: u32) -> {T} {
  let lo = subgroupShuffleXor(u32(x), mask);
  let hi = subgroupShuffleXor(u32(x >> 32u), mask);
  return bitcast<{T}>(u64(lo) | (u64(hi) << 32u));
}
`,
	"pow_int": `
fn {name}(a: {T}, b: {T}) -> {T} {
  if (b < {T}(0)) {
    return select({T}(0), select({T}(1), a, (b & {T}(1)) != {T}(0)), a * a == {T}(1));
  }
  var r = {T}(1);
  var base = a;
  var n = b;
  while (n > {T}(0)) {
    if ((n & {T}(1)) != {T}(0)) { r = r * base; }
    base = base * base;
    n = n >> 1u;
  }
  return r;
}
`,
	"half_bits": `
fn {name}(x: f32) -> u32 {
  let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
  let b = bitcast<u32>(x) & 0x7fffffffu;
  if (b > 0x7f800000u) { return sign | 0x7e00u; }
  if (b >= 0x477ff000u) { return sign | 0x7c00u; }
  if (b < 0x38800000u) { return sign | u32(round(bitcast<f32>(b) * 16777216.0)); }
  return sign | (((b + 0xfffu + ((b >> 13u) & 1u)) >> 13u) - 0x1c000u);
}
`,
	"brain_bits": `
fn {name}(x: f32) -> u32 {
  let b = bitcast<u32>(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) { return (b >> 16u) | 0x40u; }
  return (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;
}
`,
	// Some drivers compute tanh from exp(2x), which overflows.
	"tanh_safe": `
fn {name}(x: {T}) -> {T} {
  return select(tanh(clamp(x, {T}(-10.0), {T}(10.0))), x, is_nan{x}(x));
}
`,
	// Relative error below 3e-7.
	"erf": `
fn {name}(x: {T}) -> {T} {
  let t = min(abs(x), {T}(4.0));
  let s = x * x;
  var p = {T}(7.882497448008507e-05);
  p = fma(p, s, {T}(-0.0008018855005502701));
  p = fma(p, s, {T}(0.005189312156289816));
  p = fma(p, s, {T}(-0.02685432881116867));
  p = fma(p, s, {T}(0.11283597350120544));
  p = fma(p, s, {T}(-0.3761262595653534));
  p = fma(p, s, {T}(1.1283791065216064));
  var q = {T}(-1.3633129128720611e-05);
  q = fma(q, t, {T}(0.0003234540345147252));
  q = fma(q, t, {T}(-0.0034814788959920406));
  q = fma(q, t, {T}(0.022804604843258858));
  q = fma(q, t, {T}(-0.10375356674194336));
  q = fma(q, t, {T}(-0.6384937167167664));
  q = fma(q, t, {T}(-1.1263688802719116));
  q = fma(q, t, {T}(-0.0006221142830327153));
  let far = {T}(1.0) - our_exp{x}(q);
  let y = select(select(far, -far, x < {T}(0.0)), x * p, t < {T}(1.0));
  return select(y, x, is_nan{x}(x));
}
`,
	// exp(x) = 2^n exp(r), |r| <= ln(2)/2 (Cody and Waite, 1980); 2^n is two factors, so that denormal results survive.
	// Error below 2 ulp.
	"our_exp": `
fn {name}(x: {T}) -> {T} {
  let c = clamp(x, {T}(-104.0), {T}(89.0));
  let n = round(c * {T}(1.4426950408889634));
  let r = fma(n, {T}(-1.4286068203094173e-06), fma(n, {T}(-0.693145751953125), c));
  var p = {T}(0.001393454265780747);
  p = fma(p, r, {T}(0.008363776840269566));
  p = fma(p, r, {T}(0.04166645556688309));
  p = fma(p, r, {T}(0.16666573286056519));
  p = fma(p, r, {T}(0.5));
  p = fma(p, r * r, r) + {T}(1.0);
  let i = {I}(n);
  let h = i / {I}(2);
  let y = p * bitcast<{T}>((h + {I}(127)) << {U}(23u)) * bitcast<{T}>((i - h + {I}(127)) << {U}(23u));
  return select(y, x, is_nan{x}(x));
}
`,
	// our_exp where the device's exp2 is accurate: exp(x) = 2^(x log2(e)), with the product in two floats. Where the
	// first is not finite or far beyond the exponents, the second counts as 0. Error below 3 ulp, with exp2's 2;
	// results below the least normal number may become 0.
	"exp_of_exp2": `
fn {name}(x: {T}) -> {T} {
  let hi = x * {T}(1.4426950408889634);
  let lo = fma(x, {T}(1.925963033500634e-08), fma(x, {T}(1.4426950408889634), -hi));
  return exp2(hi) * fma(select(lo, {T}(0.0), abs(hi) > {T}(200.0)), {T}(0.6931471805599453), {T}(1.0));
}
`,
	// log(x) = e ln 2 + log(m), m in [sqrt(1/2), sqrt(2)). Error below 2 ulp.
	"our_log": `
fn {name}(x: {T}) -> {T} {
  let tiny = x < {T}(1.17549435e-38);
  let b = bitcast<{I}>(select(x, x * {T}(8388608.0), tiny));
  let k = (b - {I}(0x3f3504f3)) >> {U}(23u);
  let e = {T}(k) - select({T}(0.0), {T}(23.0), tiny);
  let f = bitcast<{T}>(b - (k << {U}(23u))) - {T}(1.0);
  var p = {T}(0.08743945509195328);
  p = fma(p, f, {T}(-0.14377330243587494));
  p = fma(p, f, {T}(0.14949095249176025));
  p = fma(p, f, {T}(-0.16560696065425873));
  p = fma(p, f, {T}(0.19956977665424347));
  p = fma(p, f, {T}(-0.2500215470790863));
  p = fma(p, f, {T}(0.3333418369293213));
  p = fma(p, f, {T}(-0.49999988079071045));
  let y = fma(e, {T}(0.693145751953125), fma(p, f * f, f) + e * {T}(1.4286068203094173e-06));
  let u = bitcast<{U}>(x);
  var r = select(y, x, u >= {U}(0x7f800000u));
  r = select(r, bitcast<{T}>(u | {U}(0x7fc00000u)), (u > {U}(0x80000000u)) & !is_nan{x}(x));
  return select(r, bitcast<{T}>((u & {U}(0x0u)) | {U}(0xff800000u)), (u & {U}(0x7fffffffu)) == {U}(0u));
}
`,
	// Cody-Waite reduction by pi/2 in three parts: accurate for |x| up to about 1e5.
	"sincos": `
fn {name}(x: {T}, quarter: {I}) -> {T} {
  let n = round(x * {T}(0.6366197723675814));
  var r = fma(n, {T}(-1.5703125), x);
  r = fma(n, {T}(-0.00048351287841796875), r);
  r = fma(n, {T}(-3.1385570764541625e-07), r);
  r = fma(n, {T}(-6.0771005065061922e-11), r);
  let q = {I}(n) + quarter;
  let s = r * r;
  let cubic = fma({T}(-0.0001950396253960207), s, {T}(0.008332036435604095));
  let sine = r + r * s * fma(cubic, s, {T}(-0.16666650772094727));
  var c = fma({T}(2.4379880414926447e-05), s, {T}(-0.0013886619126424193));
  c = fma(c, s, {T}(0.04166661575436592));
  let cosine = fma(c, s * s, fma({T}(-0.5), s, {T}(1.0)));
  let y = select(sine, cosine, (q & {I}(1)) != {I}(0));
  return select(y, -y, (q & {I}(2)) != {I}(0));
}
`,
	"our_sin": `
fn {name}(x: {T}) -> {T} {
  return sincos{x}(x, {I}(0));
}
`,
	"our_cos": `
fn {name}(x: {T}) -> {T} {
  return sincos{x}(x, {I}(1));
}
`,
	// For a small e, log(1+e) comes from its series.
	"log_add": `
fn {name}(a: {T}, b: {T}) -> {T} {
  let top = max(a, b);
  let e = our_exp{x}(min(a, b) - top);
  let sum = top + select(our_log{x}({T}(1.0) + e), e - {T}(0.5) * e * e, e < {T}(0.001));
  return select(select(sum, top + {T}(0.6931471805599453), a == b), a + b, is_nan{x}(a) | is_nan{x}(b));
}
`,
	"our_tanh": `
fn {name}(x: {T}) -> {T} {
  let t = min(abs(x), {T}(10.0));
  let s = x * x;
  var p = {T}(-0.005856427829712629);
  p = fma(p, s, {T}(0.02075747586786747));
  p = fma(p, s, {T}(-0.05376992002129555));
  p = fma(p, s, {T}(0.13331705331802368));
  p = fma(p, s, {T}(-0.3333328366279602));
  let far = {T}(1.0) - {T}(2.0) / (our_exp{x}(t + t) + {T}(1.0));
  let y = select(select(far, -far, x < {T}(0.0)), fma(x * s, p, x), t < {T}(0.6));
  return select(y, x, is_nan{x}(x));
}
`,
	"our_sqrt": `
fn {name}(x: {T}) -> {T} {
  let r = sqrt(x);
  let u = bitcast<{U}>(r);
  let plain = (u > {U}(0x00800000u)) & (u < {U}(0x7f800000u));
  return select(r, fma(fma(-r, r, x), {T}(0.5) / r, r), plain);
}
`,
	"our_div": `
fn {name}(a: {T}, b: {T}) -> {T} {
  let q = a / b;
  let u = bitcast<{U}>(q) & {U}(0x7fffffffu);
  let plain = (u > {U}(0x00800000u)) & (u < {U}(0x7f000000u));
  return select(q, q + fma(-q, b, a) / b, plain);
}
`,
	// pow(a, b) = 2^(b log2|a|) with the logarithm and the product in two floats each (log2 m = 2/ln 2
	// atanh((m-1)/(m+1))), then the special cases of IEEE 754. Error below 4 ulp.
	"pow_float": `
fn {name}(a: {T}, b: {T}) -> {T} {
  let x = abs(a);
  let tiny = x < {T}(1.17549435e-38);
  let i = bitcast<{I}>(select(x, x * {T}(8388608.0), tiny));
  let k = (i - {I}(0x3f3504f3)) >> {U}(23u);
  let e = {T}(k) - select({T}(0.0), {T}(23.0), tiny);
  let m = bitcast<{T}>(i - (k << {U}(23u)));
  let num = m - {T}(1.0);
  let den = m + {T}(1.0);
  let denlo = (m - (den - {T}(1.0)));
  let s = num / den;
  let slo = (fma(-s, den, num) - s * denlo) / den;
  let t = s * s;
  var p = {T}(0.23);
  p = fma(p, t, {T}(0.2857142857));
  p = fma(p, t, {T}(0.4));
  p = fma(p, t, {T}(0.66666668653));
  let ps = p * t * s;
  let lhi = {T}(2.0) * s + ps;
  let llo = ({T}(2.0) * s - lhi) + ps + {T}(2.0) * slo - {T}(1.9868215e-08) * t * s;
  let c = {T}(1.44269502162933349609375);
  let clo = {T}(1.92596299112661746887e-08);
  let phi = lhi * c;
  let plo = fma(lhi, c, -phi) + fma(lhi, clo, llo * c);
  let ghi = e + phi;
  let glo = (phi - (ghi - e)) + plo;
  let zhi = clamp(b * ghi, {T}(-160.0), {T}(160.0));
  let zerr = fma(b, ghi, -zhi) + b * glo;
  let zlo = select(zerr, {T}(0.0), abs(zhi) >= {T}(155.0));
  let n = round(zhi);
  let f = (zhi - n) + zlo;
  var y = {T}(0.00015469732170458883);
  y = fma(y, f, {T}(0.0013400432653725147));
  y = fma(y, f, {T}(0.00961802527308464));
  y = fma(y, f, {T}(0.05550327152013779));
  y = fma(y, f, {T}(0.24022650718688965));
  y = fma(y, f, {T}(0.6931471824645996));
  y = fma(y, f, {T}(1.0));
  let j = {I}(n);
  let h = j / {I}(2);
  var r = y * bitcast<{T}>((h + {I}(127)) << {U}(23u)) * bitcast<{T}>((j - h + {I}(127)) << {U}(23u));
  let ub = bitcast<{U}>(b);
  let ux = bitcast<{U}>(x);
  let inf = bitcast<{T}>((ux & {U}(0u)) | {U}(0x7f800000u));
  let down = (ub >> {U}(31u)) != {U}(0u);
  r = select(r, select({T}(0.0), inf, down), ux == {U}(0u));
  r = select(r, select(inf, {T}(0.0), down), ux == {U}(0x7f800000u));
  let binf = (ub & {U}(0x7fffffffu)) == {U}(0x7f800000u);
  let grows = (x > {T}(1.0)) != down;
  r = select(r, select({T}(0.0), inf, grows), binf);
  let whole = (trunc(b) == b) & !binf;
  let units = {I}(clamp(b, {T}(-16777216.0), {T}(16777216.0)));
  let odd = whole & (abs(b) < {T}(16777216.0)) & ((units & {I}(1)) != {I}(0));
  let neg = (bitcast<{U}>(a) >> {U}(31u)) != {U}(0u);
  r = select(r, -r, neg & odd);
  let nan = bitcast<{T}>((ux & {U}(0u)) | {U}(0x7fc00000u));
  r = select(r, nan, neg & !whole & !binf & (ux != {U}(0u)) & (ux < {U}(0x7f800000u)));
  r = select(r, nan, is_nan{x}(a) | is_nan{x}(b));
  r = select(r, {T}(1.0), (b == {T}(0.0)) | ((x == {T}(1.0)) & (!neg | binf)));
  return r;
}
`,
}

// philox is the ten-round block function (Salmon et al., SC 2011).
func (w *writer) philox() string {
	if w.helpers["philox"] {
		return "philox"
	}
	w.helpers["philox"] = true
	mul := `fn mul_hi(a: u32, b: u32) -> u32 {
  let t = (a & 0xffffu) * (b & 0xffffu);
  let u = (a >> 16u) * (b & 0xffffu) + (t >> 16u);
  let v = (a & 0xffffu) * (b >> 16u) + (u & 0xffffu);
  return (a >> 16u) * (b >> 16u) + (u >> 16u) + (v >> 16u);
}
`
	if w.o.I64 {
		mul = `fn mul_hi(a: u32, b: u32) -> u32 {
  return u32((u64(a) * u64(b)) >> 32u);
}
`
	}
	w.funcs = append(w.funcs, mul, `fn philox(ctr: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
  var c = ctr;
  var k = key;
  for (var i = 0; i < 10; i += 1) {
    c = vec4<u32>(mul_hi(0xcd9e8d57u, c.z) ^ c.y ^ k.x, 0xcd9e8d57u * c.z,
                  mul_hi(0xd2511f53u, c.x) ^ c.w ^ k.y, 0xd2511f53u * c.x);
    k += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
  }
  return c;
}
`)
	return "philox"
}
