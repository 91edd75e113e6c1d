// The table of one instruction set. The including file sets the compiler's target and defines TLK_TABLE, TLK_VL and
// TLK_MR.
#include <math.h>
#include <string.h>
#include "cpu.h"
#include "kern_math.h"
#include "kern_math64.h"
#include "kern_elem.h"
#include "kern_turn.h"
#include "kern_tile.h"
#include "kern_scan.h"
#include "kern_gemm.h"
#include "kern_row.h"
#include "kern_spots.h"
#include "kern_draw.h"
#include "kern_window.h"
#include "kern_plane.h"
#include "kern_half.h"
#include "kern_attention.h"
#include "kern_quantized.h"
#define TLK_FFT_REAL float
#define TLK_FFT(x) fft_##x##32
#define TLK_FFT_LANES TLK_VL
#include "kern_fft.h"
#undef TLK_FFT_REAL
#undef TLK_FFT
#undef TLK_FFT_LANES
#define TLK_FFT_REAL double
#define TLK_FFT(x) fft_##x##64
#define TLK_FFT_LANES (TLK_VL / 2)
#include "kern_fft.h"

#define B3(f) {f##_0, f##_1, f##_2}
#define B6(f) {f##_0, f##_1, f##_2, f##_3, f##_4, f##_5}
#define U1(f) {f}
#define B2(f) {f##_0, f##_1}
#define FLOATS(m, f) [TLK_F32] = m(f##_f32), [TLK_F64] = m(f##_f64)
#define INTS(m, f) [TLK_I32] = m(f##_i32), [TLK_I64] = m(f##_i64), [TLK_U32] = m(f##_u32), [TLK_U64] = m(f##_u64)
#define NUMBERS(m, f) FLOATS(m, f), INTS(m, f)
#define SEL(w) {sel_##w##_0, sel_##w##_1, sel_##w##_2, sel_##w##_3}
#define EXPAND(w) {expand_##w##_0, expand_##w##_1, expand_##w##_2}
#define WIDTHS(m) [TLK_BOOL] = m(1), [TLK_I32] = m(4), [TLK_I64] = m(8), [TLK_U32] = m(4), \
	[TLK_F32] = m(4), [TLK_F64] = m(8), [TLK_U64] = m(8)
#define MEM(p) [TLK_BOOL] = {p##_b8}, [TLK_I32] = {p##_w4}, [TLK_I64] = {p##_w8}, [TLK_U32] = {p##_w4}, \
	[TLK_F16] = {p##_f16}, [TLK_BF16] = {p##_bf16}, \
	[TLK_U8] = {p##_u8}, [TLK_I8] = {p##_i8}, [TLK_I16] = {p##_i16}, [TLK_U16] = {p##_u16}, \
	[TLK_U64] = {p##_w8}
#define CAST(t) {[TLK_BOOL] = cast_b8_##t, [TLK_I32] = cast_i32_##t, [TLK_I64] = cast_i64_##t, \
	[TLK_U32] = cast_u32_##t, [TLK_U64] = cast_u64_##t, \
	[TLK_F32] = cast_f32_##t, [TLK_F64] = cast_f64_##t}
#define ALL(f) {f}, {f}, {f}, {f}, {f}, {f}, {f}, {f}, {f}, {f}, {f}, {f}, {f}, {f}
#define EXT(s) {s##_r_0, s##_r_1}
#define SCAN(s) {scan_sum_##s, scan_prod_##s, scan_max_##s, scan_min_##s}
#define FLOAT_SCAN(s) {scan_sum_##s, scan_prod_##s, scan_max_##s, scan_min_##s, scan_logsum_##s}

static const tl_fn functions[TLK_OPS][TLK_TYPES][TLK_TYPES] = {
	[TLK_NOP] = {ALL(nop)},
	[TLK_CONST] = {ALL(konst)},
	[TLK_PARAM] = {ALL(param)},
	[TLK_DIRECT] = {ALL(direct)},
	[TLK_IOTA] = {ALL(iota)},
	[TLK_LOAD] = {MEM(load), [TLK_F32] = {load_w4}, [TLK_F64] = {load_w8}},
	[TLK_GATHER] = {MEM(gather), [TLK_F32] = {gather_w4}, [TLK_F64] = {gather_w8}},
	[TLK_STORE] = {MEM(store), [TLK_F32] = {store_w4}, [TLK_F64] = {store_w8}},
	[TLK_SCATTER] = {[TLK_BOOL] = {scatter_b8}, [TLK_I32] = {scatter_i32}, [TLK_I64] = {scatter_i64},
		[TLK_U32] = {scatter_u32},
		[TLK_F16] = {scatter_f16}, [TLK_BF16] = {scatter_bf16}, [TLK_F32] = {scatter_f32}, [TLK_F64] = {scatter_f64},
		[TLK_U8] = {scatter_u8}, [TLK_I8] = {scatter_i8}, [TLK_I16] = {scatter_i16}, [TLK_U16] = {scatter_u16},
		[TLK_U64] = {scatter_u64}},
	[TLK_EXPAND] = {WIDTHS(EXPAND)},
	[TLK_CAST] = {[TLK_BOOL] = CAST(b8), [TLK_I32] = CAST(i32), [TLK_I64] = CAST(i64), [TLK_U32] = CAST(u32),
		[TLK_U64] = CAST(u64),
		[TLK_F32] = CAST(f32), [TLK_F64] = CAST(f64),
		[TLK_F16] = {[TLK_F32] = narrow_f16}, [TLK_BF16] = {[TLK_F32] = narrow_bf16}},
	[TLK_ADD] = {NUMBERS(B3, add)}, [TLK_SUB] = {NUMBERS(B3, sub)}, [TLK_MUL] = {NUMBERS(B3, mul)},
		[TLK_DIV] = {NUMBERS(B3, div)},
	[TLK_REM] = {NUMBERS(B3, rem)}, [TLK_MIN] = {NUMBERS(B3, min)}, [TLK_MAX] = {NUMBERS(B3, max)},
		[TLK_POW] = {NUMBERS(B3, pow)},
	[TLK_LOGADD] = {FLOATS(B3, logadd)}, [TLK_LOGSUM] = {FLOATS(B2, logsum)},
	[TLK_EQ] = {NUMBERS(B3, eq), [TLK_BOOL] = B3(eq_b8)}, [TLK_NE] = {NUMBERS(B3, ne), [TLK_BOOL] = B3(ne_b8)},
	[TLK_LT] = {NUMBERS(B3, lt), [TLK_BOOL] = B3(lt_b8)}, [TLK_LE] = {NUMBERS(B3, le), [TLK_BOOL] = B3(le_b8)},
	[TLK_AND] = {INTS(B3, and), [TLK_BOOL] = B3(and_b8)}, [TLK_OR] = {INTS(B3, or), [TLK_BOOL] = B3(or_b8)},
		[TLK_XOR] = {INTS(B3, xor), [TLK_BOOL] = B3(xor_b8)},
	[TLK_SHL] = {INTS(B3, shl)}, [TLK_SHR] = {INTS(B3, shr)},
	[TLK_NEG] = {NUMBERS(U1, neg)}, [TLK_ABS] = {NUMBERS(U1, abs)}, [TLK_NOT] = {INTS(U1, not), [TLK_BOOL] = {not_b8}},
	[TLK_FLOOR] = {FLOATS(U1, floor)}, [TLK_CEIL] = {FLOATS(U1, ceil)}, [TLK_ROUND] = {FLOATS(U1, round)},
		[TLK_TRUNC] = {FLOATS(U1, trunc)},
	[TLK_SQRT] = {FLOATS(U1, sqrt)}, [TLK_EXP] = {FLOATS(B2, exp)}, [TLK_LOG] = {FLOATS(U1, log)},
		[TLK_SIN] = {FLOATS(U1, sin)}, [TLK_COS] = {FLOATS(U1, cos)},
	[TLK_TANH] = {FLOATS(U1, tanh)}, [TLK_ERF] = {FLOATS(U1, erf)}, [TLK_ISNAN] = {FLOATS(U1, isnan)},
	[TLK_FMA] = {FLOATS(B6, fma)}, [TLK_SHIFTED] = {FLOATS(U1, shifted)},
	[TLK_SELECT] = {WIDTHS(SEL)},
	[TLK_DRAW] = {ALL(draw)},
	[TLK_SUM] = {[TLK_F32] = {sum_f32_0, sum_f32_1, sum_f32_2, dot_f32, squares_f32, distances_f32, coldot_f32,
		colprod_f32},
		[TLK_F64] = {sum_f64_0, sum_f64_1, sum_f64_1, dot_f64, squares_f64, distances_f64, coldot_f64,
			colprod_f64},
		[TLK_I32] = {sum_i32_0, sum_i32_1, sum_i32_1}, [TLK_U32] = {sum_i32_0, sum_i32_1, sum_i32_1},
			[TLK_I64] = {sum_i64_0, sum_i64_1, sum_i64_1}, [TLK_U64] = {sum_i64_0, sum_i64_1, sum_i64_1}},
	[TLK_PROD] = {[TLK_F32] = {prod_f32_0, prod_f32_1, prod_f32_1}, [TLK_F64] = {prod_f64_0, prod_f64_1, prod_f64_1},
		[TLK_I32] = {prod_i32_0, prod_i32_1, prod_i32_1}, [TLK_U32] = {prod_i32_0, prod_i32_1, prod_i32_1},
			[TLK_I64] = {prod_i64_0, prod_i64_1, prod_i64_1}, [TLK_U64] = {prod_i64_0, prod_i64_1, prod_i64_1}},
	[TLK_AMAX] = {[TLK_F32] = EXT(max_f32), [TLK_F64] = EXT(max_f64), [TLK_I32] = EXT(max_i32), [TLK_I64] = EXT(max_i64),
		[TLK_U32] = EXT(max_u32), [TLK_U64] = EXT(max_u64)},
	[TLK_AMIN] = {[TLK_F32] = EXT(min_f32), [TLK_F64] = EXT(min_f64), [TLK_I32] = EXT(min_i32), [TLK_I64] = EXT(min_i64),
		[TLK_U32] = EXT(min_u32), [TLK_U64] = EXT(min_u64)},
	[TLK_ARGMAX] = {NUMBERS(B2, argmax)},
	[TLK_ARGMIN] = {NUMBERS(B2, argmin)},
	[TLK_ANY] = {[TLK_BOOL] = {any_b8_0, any_b8_1}},
	[TLK_ALL] = {[TLK_BOOL] = {all_b8_0, all_b8_1}},
	// var: 0: the state has the register's width; 1: a double sum with parts; 2: a double; 3: an i64.
	[TLK_FINAL] = {[TLK_BOOL] = {fin_b8}, [TLK_F32] = {fin_w4, fin_sum_f32, fin_d_f32}, [TLK_F64] = {fin_w8},
		[TLK_I64] = {fin_w8}, [TLK_U64] = {fin_w8},
		[TLK_I32] = {[0] = fin_w4, [3] = fin_l_i32}, [TLK_U32] = {[0] = fin_w4, [3] = fin_l_i32}},
	[TLK_FINALIDX] = {[TLK_I64] = {finidx_i64}, [TLK_I32] = {finidx_i32}, [TLK_U32] = {finidx_i32}},
	[TLK_SCAN] = {[TLK_F32] = FLOAT_SCAN(f32), [TLK_F64] = FLOAT_SCAN(f64), [TLK_I32] = SCAN(i32), [TLK_I64] = SCAN(i64),
		[TLK_U32] = SCAN(u32), [TLK_U64] = SCAN(u64),
		[TLK_BOOL] = {scan_any, scan_all}},
	[TLK_CHECK] = {ALL(check)},
	[TLK_CODE] = {{code}},
};

const tl_isa_table TLK_TABLE = {
	.fn = functions,
	.mr32 = TLK_MR, .nr32 = TLK_NR32, .mr64 = TLK_MR, .nr64 = TLK_NR64, .along = TLK_ALONG,
	.near = TLK_VL == 8 ? 1 << 18 : 1 << 20, .keep32 = TLK_KEPT(keep32), .keep64 = TLK_KEPT(keep64),
	.gemm32 = gemm32, .gemm64 = gemm64, .packb32 = packb32, .packb64 = packb64, .gemmrows32 = gemmrows32,
		.gemmrows64 = gemmrows64, .window32 = window32, .window64 = window64, .plane32 = plane32, .plane64 = plane64,
		.putruns32 = putruns32, .putruns64 = putruns64, .spots32 = TLK_SPOTS32, .spots64 = TLK_SPOTS64,
	.packruns32 = packruns32, .packruns64 = packruns64,
	.packwindows32 = packwindows32, .packwindows64 = packwindows64, .turnout32 = turnout32, .turnout64 = turnout64,
	.packtrans32 = packtrans32, .packtrans64 = packtrans64, .packa32 = packa32, .packa64 = packa64,
	.bias32 = bias32, .bias64 = bias64, .row32 = row32, .row64 = row64, .dot32 = dot32, .dot64 = dot64,
		.axpy32 = axpy32, .axpy64 = axpy64,
		.addrows32 = addrows32, .addrows64 = addrows64, .rotate32 = rotate32, .rotate64 = rotate64,
	.half_across = half_across, .half_along = half_along, .half_store = half_store,
	.half_dots = half_dots, .half_rows = half_rows, .turn = transpose_w4,
	.panel_rows = TLK_PANEL_ROWS, .row_panels = TLK_ROW_PANELS, .panel = quantized_panel, .int8_panel = int8_panel,
	.fft_columns32 = fft_column_job32, .fft_columns64 = fft_column_job64, .fft_rows32 = fft_row_job32,
		.fft_rows64 = fft_row_job64,
	.attention_softmax = attention_softmax, .attention_weights = attention_weights, .draws = philox_run,
};
