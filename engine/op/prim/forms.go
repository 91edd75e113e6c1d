package prim

import "github.com/torchlette/torchlette/engine/op"

// forms has, for each primitive that is no plain map, its operands, its attributes in braces, and its results. A name
// with ? may be absent; dims... is the rest of the attributes. Windows are the lists of op.Windows.
var forms = map[string]string{
	"attention": "q, k, v, mask?, scale, (seed, offset, rate)? {causal, has mask, dropout} -> out[b, l, h, ev], " +
		"lse[b, h, l]",
	"attention_grad": "q, k, v, gy, out, lse, mask?, scale, (seed, offset, rate)? {causal, has mask, dropout, " +
		"mask's gradient} -> dq, dk, dv, dmask?",
	"batch_norm":      "x, w?, b?, eps {has w, has b} -> y, mean, rstd, variance",
	"batch_norm_grad": "gy, x, mean, rstd, w? {has w} -> dx, dw, db",
	"clip":            "x, y {variant} -> z",
	"bitwise":         "x, y {variant} -> z",
	"compare":         "x, y {variant} -> bool",
	"where":           "cond, x, y -> z",
	"require":         "ok, x {requirement} -> x",
	"cast":            "x {dtype} -> y",
	"tri":             "x {diagonal, upper} -> y",
	"fill":            "value {dtype, device, shape...} -> y",
	"iota":            "start, step {dtype, device, n} -> y",
	"random":          "seed, offset, low?, high? {dtype, device, variant, shape...} -> y",
	"dropout":         "x, seed, offset, p -> y",
	"to_device":       "x {device} -> y",
	"gather":          "x, i {dim} -> y",
	"index_select":    "x, i[n] {dim} -> y",
	"scatter":         "x, i, src {dim, 0 write or 1 add, -2 if indices are known to be in range} -> y",
	"scatter_reduce":  "x, i, src {dim, 2 product, 3 maximum or 4 minimum} -> y",
	"layer_norm": "x, w?, b?, eps {number of dims, has w, has b, about 0} -> y, mean, rstd (statistics in float32; " +
		"rms_norm is about 0)",
	"layer_norm_grad":    "gy, x, mean, rstd, w? {number of dims, has w, about 0} -> dx",
	"layer_norm_grad_wb": "gy, x, mean, rstd {number of dims} -> dw, db",
	"cholesky":           "a {option, failure} -> lower, status",
	"lu_factor":          "a {option, failure} -> lu, pivots, status",
	"lu_permutation":     "pivots {option, failure, rows} -> order",
	"linear_solve":       "a, b {option, failure} -> x, lu, pivots, status",
	"triangular_solve":   "a, b {option, failure} -> x",
	"qr":                 "a {option, failure} -> q, r",
	"eigh":               "a {option, failure} -> values, vectors",
	"svd":                "a {option, failure} -> u, s, vt",
	"pinv":               "a, atol, rtol {option, failure} -> y",
	"matrix_exp":         "a {option, failure} -> y",
	"ldl_factor":         "a {option, failure} -> ld, pivots, status",
	"eig":                "a {option, failure} -> values, vectors",
	"ldl_solve":          "ld, b, pivots {option, failure} -> x",
	"cross_entropy": "x, class {dim, ignored class} -> loss, whether it counts, maximum, log of the sum of exponentials " +
		"(statistics in float32)",
	"cross_entropy_grad":  "g, x, class, maximum, logsum {dim, ignored class} -> dx",
	"cat":                 "x... {dim} -> y",
	"strided_scatter":     "base, value, offset {layout} -> y",
	"strided_scatter_add": "base, value, offset {layout} -> y (the layout may repeat elements)",
	"sgd_step": "p, g, buf?, overflow?, lr, momentum, dampening, weight_decay, first {nesterov, maximize, has buf, " +
		"has overflow} -> p, buf? (in place where possible; the old values where overflow is not 0)",
	"adam_step": "p, g, m, v, vmax?, [overflow, bias1, bias2]?, lr, beta1, beta2, eps, weight_decay, [bias1, bias2]?, " +
		"1-beta1, 1-beta2 {decoupled, amsgrad, maximize, has overflow} -> p, m, v, vmax? (in place where possible; the old " +
		"values where overflow is not 0)",
	"fft": "x {variant, dim, n, bits of a factor} -> y (complex numbers are pairs along a last dim)",
	"quantized_product": "x[m, k], w, scale, offset?, bias? {bits, group, n, has offset, has bias, dynamic} -> y[m, n] " +
		"(weights in words, by panels of outputs)",
	"quantized_conv": "x, w, scale, bias, sums, zero?, step?, shifts? {windows, groups, outputs of one, dtype, " +
		"zero of x, zero of y, least, most, rows, dynamic, shifted, narrow} -> y (weights in words, by panels of outputs)",
	"conv_last": "x[n, h, w, c], w, bias, add? {windows, outputs, alone, has add, bits of least, of most} -> " +
		"y[n, h, w, o] (weights by panels of outputs)",
	"scan":   "x {dim, operation} -> y",
	"sort":   "x {k, dim, descending} -> values, indices",
	"search": "rows, x {right} -> places",
	"matmul": "a[batch..., m, k], b[batch..., k, n], bias[n]? {has bias} -> c",
	"loop": "carries..., xs..., shared..., (seed, offset)? {body, carries, xs, length, reverse, keep, while} " +
		"-> carries..., ys..., carries before each iteration?",
	"cell":      "x, p, state? {variant, keep} -> kept?, h, c?",
	"cell_grad": "kept, state?, gh?, gc? {variant, has gh, has gc} -> dx, dp?, dstate?",
	"recurrence": "x[T, B, gates*H], w[gates*H, H], h, c?, bias? {variant, backwards, has bias, keep} -> y[T, B, H], " +
		"with keep h[T+1, B, H], kept?, c?",
	"recurrence_grad":  "gy, w, kept?, h or c, gc? {variant, backwards, has gc, first states wanted} -> dx, dp?, dh?, dc?",
	"sum":              "x {dims...} -> y",
	"sum_squares":      "x {dims...} -> y",
	"prod":             "x {dims...} -> y",
	"extremum":         "x {variant, dims...} -> y",
	"arg_extremum":     "x {variant, dim} -> index",
	"extremum_dim":     "x {variant, dim} -> values, indices",
	"var":              "x, correction {dims...} -> var, mean",
	"softmax":          "x {dim, log} -> y",
	"softmax_grad":     "gy, y {dim, log} -> dx",
	"special":          "x, y? {variant} -> z",
	"step":             "x {variant} -> y",
	"gelu":             "x {variant} -> y",
	"gelu_grad":        "x, gy {variant} -> dx",
	"isnan":            "x -> bool",
	"conv":             "x, w {windows, groups} -> y",
	"conv_weight_grad": "x, gy {windows, groups} -> dw",
	"window_sum":       "x {windows} -> y",
	"window_max":       "x {windows} -> values, places",
}

// setForms sets the Form of each primitive; a plain map has the form of its arity.
func setForms() {
	for _, p := range op.Prims() {
		if form, ok := forms[p.Name]; ok {
			p.Form = form
		} else if p.Elementwise && p.Variants == nil && p.NIn > 0 {
			p.Form = [...]string{"x -> y", "x, y -> z"}[p.NIn-1]
		}
	}
}
