// The table of one instruction set. The including file has set the compiler's target and defined TL_TABLE, TL_VL and
// TL_MR.
#include <math.h>
#include <string.h>
#include "cpu.h"
#include "kern_math.h"
#include "kern_elem.h"
#include "kern_tile.h"
#include "kern_scan.h"
#include "kern_gemm.h"
#include "kern_attention.h"

#define B3(f) {f##_0, f##_1, f##_2}
#define B6(f) {f##_0, f##_1, f##_2, f##_3, f##_4, f##_5}
#define U1(f) {f}
#define B2(f) {f##_0, f##_1}
#define FLOATS(m, f) [TL_F32] = m(f##_f32), [TL_F64] = m(f##_f64)
#define INTS(m, f) [TL_I32] = m(f##_i32), [TL_I64] = m(f##_i64), [TL_U32] = m(f##_u32)
#define NUMBERS(m, f) FLOATS(m, f), INTS(m, f)
#define SEL(w) {sel_##w##_0, sel_##w##_1, sel_##w##_2, sel_##w##_3}
#define EXPAND(w) {expand_##w##_0, expand_##w##_1, expand_##w##_2}
#define WIDTHS(m) [TL_BOOL] = m(1), [TL_I32] = m(4), [TL_I64] = m(8), [TL_U32] = m(4), [TL_F32] = m(4), [TL_F64] = m(8)
#define MEM(p) [TL_BOOL] = {p##_b8}, [TL_I32] = {p##_w4}, [TL_I64] = {p##_w8}, [TL_U32] = {p##_w4}, \
	[TL_F16] = {p##_f16}, [TL_BF16] = {p##_bf16}, \
	[TL_U8] = {p##_u8}, [TL_I8] = {p##_i8}, [TL_I16] = {p##_i16}
#define CAST(t) {[TL_BOOL] = cast_b8_##t, [TL_I32] = cast_i32_##t, [TL_I64] = cast_i64_##t, [TL_U32] = cast_u32_##t, \
	[TL_F32] = cast_f32_##t, [TL_F64] = cast_f64_##t}
#define ALL(f) {f}, {f}, {f}, {f}, {f}, {f}, {f}, {f}, {f}
#define EXT(s) {s##_r_0, s##_r_1}
#define SCAN(s) {scan_sum_##s, scan_prod_##s, scan_max_##s, scan_min_##s}
#define FLOAT_SCAN(s) {scan_sum_##s, scan_prod_##s, scan_max_##s, scan_min_##s, scan_logsum_##s}

static const tl_fn functions[TL_OPS][TL_TYPES][TL_TYPES] = {
	[TL_NOP] = {ALL(nop)},
	[TL_CONST] = {ALL(konst)},
	[TL_PARAM] = {ALL(param)},
	[TL_DIRECT] = {ALL(direct)},
	[TL_IOTA] = {ALL(iota)},
	[TL_LOAD] = {MEM(load), [TL_F32] = {load_w4}, [TL_F64] = {load_w8}},
	[TL_GATHER] = {MEM(gather), [TL_F32] = {gather_w4}, [TL_F64] = {gather_w8}},
	[TL_STORE] = {MEM(store), [TL_F32] = {store_w4}, [TL_F64] = {store_w8}},
	[TL_SCATTER] = {[TL_BOOL] = {scatter_b8}, [TL_I32] = {scatter_i32}, [TL_I64] = {scatter_i64}, [TL_U32] = {scatter_u32},
		[TL_F16] = {scatter_f16}, [TL_BF16] = {scatter_bf16}, [TL_F32] = {scatter_f32}, [TL_F64] = {scatter_f64},
		[TL_U8] = {scatter_u8}, [TL_I8] = {scatter_i8}, [TL_I16] = {scatter_i16}},
	[TL_EXPAND] = {WIDTHS(EXPAND)},
	[TL_CAST] = {[TL_BOOL] = CAST(b8), [TL_I32] = CAST(i32), [TL_I64] = CAST(i64), [TL_U32] = CAST(u32),
		[TL_F32] = CAST(f32), [TL_F64] = CAST(f64),
		[TL_F16] = {[TL_F32] = narrow_f16}, [TL_BF16] = {[TL_F32] = narrow_bf16}},
	[TL_ADD] = {NUMBERS(B3, add)}, [TL_SUB] = {NUMBERS(B3, sub)}, [TL_MUL] = {NUMBERS(B3, mul)},
		[TL_DIV] = {NUMBERS(B3, div)},
	[TL_REM] = {NUMBERS(B3, rem)}, [TL_MIN] = {NUMBERS(B3, min)}, [TL_MAX] = {NUMBERS(B3, max)},
		[TL_POW] = {NUMBERS(B3, pow)},
	[TL_LOGADD] = {FLOATS(B3, logadd)}, [TL_LOGSUM] = {FLOATS(B2, logsum)},
	[TL_EQ] = {NUMBERS(B3, eq), [TL_BOOL] = B3(eq_b8)}, [TL_NE] = {NUMBERS(B3, ne), [TL_BOOL] = B3(ne_b8)},
	[TL_LT] = {NUMBERS(B3, lt), [TL_BOOL] = B3(lt_b8)}, [TL_LE] = {NUMBERS(B3, le), [TL_BOOL] = B3(le_b8)},
	[TL_AND] = {INTS(B3, and), [TL_BOOL] = B3(and_b8)}, [TL_OR] = {INTS(B3, or), [TL_BOOL] = B3(or_b8)},
		[TL_XOR] = {INTS(B3, xor), [TL_BOOL] = B3(xor_b8)},
	[TL_SHL] = {INTS(B3, shl)}, [TL_SHR] = {INTS(B3, shr)},
	[TL_NEG] = {NUMBERS(U1, neg)}, [TL_ABS] = {NUMBERS(U1, abs)}, [TL_NOT] = {INTS(U1, not), [TL_BOOL] = {not_b8}},
	[TL_FLOOR] = {FLOATS(U1, floor)}, [TL_CEIL] = {FLOATS(U1, ceil)}, [TL_ROUND] = {FLOATS(U1, round)},
		[TL_TRUNC] = {FLOATS(U1, trunc)},
	[TL_SQRT] = {FLOATS(U1, sqrt)}, [TL_EXP] = {FLOATS(B2, exp)}, [TL_LOG] = {FLOATS(U1, log)},
		[TL_SIN] = {FLOATS(U1, sin)}, [TL_COS] = {FLOATS(U1, cos)},
	[TL_TANH] = {FLOATS(U1, tanh)}, [TL_ERF] = {FLOATS(U1, erf)}, [TL_ISNAN] = {FLOATS(U1, isnan)},
	[TL_FMA] = {FLOATS(B6, fma)}, [TL_SHIFTED] = {FLOATS(U1, shifted)},
	[TL_SELECT] = {WIDTHS(SEL)},
	[TL_PHILOX] = {ALL(philox4)},
	[TL_SUM] = {[TL_F32] = {sum_f32_0, sum_f32_1, sum_f32_2, dot_f32, squares_f32, distances_f32, coldot_f32},
		[TL_F64] = {sum_f64_0, sum_f64_1, sum_f64_1, dot_f64, squares_f64, distances_f64, coldot_f64},
		[TL_I32] = {sum_i32_0, sum_i32_1, sum_i32_1}, [TL_U32] = {sum_i32_0, sum_i32_1, sum_i32_1},
			[TL_I64] = {sum_i64_0, sum_i64_1, sum_i64_1}},
	[TL_PROD] = {[TL_F32] = {prod_f32_0, prod_f32_1, prod_f32_1}, [TL_F64] = {prod_f64_0, prod_f64_1, prod_f64_1},
		[TL_I32] = {prod_i32_0, prod_i32_1, prod_i32_1}, [TL_U32] = {prod_i32_0, prod_i32_1, prod_i32_1},
			[TL_I64] = {prod_i64_0, prod_i64_1, prod_i64_1}},
	[TL_AMAX] = {[TL_F32] = EXT(max_f32), [TL_F64] = EXT(max_f64), [TL_I32] = EXT(max_i32), [TL_I64] = EXT(max_i64),
		[TL_U32] = EXT(max_u32)},
	[TL_AMIN] = {[TL_F32] = EXT(min_f32), [TL_F64] = EXT(min_f64), [TL_I32] = EXT(min_i32), [TL_I64] = EXT(min_i64),
		[TL_U32] = EXT(min_u32)},
	[TL_ARGMAX] = {NUMBERS(B2, argmax)},
	[TL_ARGMIN] = {NUMBERS(B2, argmin)},
	[TL_ANY] = {[TL_BOOL] = {any_b8_0, any_b8_1}},
	[TL_ALL] = {[TL_BOOL] = {all_b8_0, all_b8_1}},
	// var: 0: the state has the register's width; 1: a double sum with parts; 2: a double; 3: an i64.
	[TL_FINAL] = {[TL_BOOL] = {fin_b8}, [TL_F32] = {fin_w4, fin_sum_f32, fin_d_f32}, [TL_F64] = {fin_w8},
		[TL_I64] = {fin_w8},
		[TL_I32] = {[0] = fin_w4, [3] = fin_l_i32}, [TL_U32] = {[0] = fin_w4, [3] = fin_l_i32}},
	[TL_FINALIDX] = {[TL_I64] = {finidx_i64}, [TL_I32] = {finidx_i32}, [TL_U32] = {finidx_i32}},
	[TL_SCAN] = {[TL_F32] = FLOAT_SCAN(f32), [TL_F64] = FLOAT_SCAN(f64), [TL_I32] = SCAN(i32), [TL_I64] = SCAN(i64),
		[TL_U32] = SCAN(u32), [TL_BOOL] = {scan_any, scan_all}},
	[TL_CHECK] = {ALL(check)},
};

const tl_isa_table TL_TABLE = {
	.fn = functions,
	.mr32 = TL_MR, .nr32 = TL_NR32, .mr64 = TL_MR, .nr64 = TL_NR64, .along = TL_ALONG,
	.gemm32 = gemm32, .gemm64 = gemm64, .packb32 = packb32, .packb64 = packb64, .gemmrows32 = gemmrows32,
		.gemmrows64 = gemmrows64, .putruns32 = putruns32, .putruns64 = putruns64,
	.packruns32 = packruns32, .packruns64 = packruns64,
	.packtrans32 = packtrans32, .packtrans64 = packtrans64, .packa32 = packa32, .packa64 = packa64,
	.bias32 = bias32, .bias64 = bias64, .dot32 = dot32, .dot64 = dot64, .axpy32 = axpy32, .axpy64 = axpy64,
	.attention_softmax = attention_softmax, .attention_weights = attention_weights,
};
