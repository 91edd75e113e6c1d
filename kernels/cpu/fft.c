// Runs Fourier transforms: shares columns or rows among the threads. The parameters are the outer and the inner size,
// the operand's strides over outer, transformed and inner dim, and its offset, in numbers.
#include "vector/cpu.h"

int64_t tl_run_fft(const tl_fft *f, tl_pool *pool, int isa, char **buf, const int64_t *par) {
	const tl_isa_table *t = tl_isa_tables(isa);
	const int wide = f->type == TLK_F64, width = wide ? 8 : 4;
	const int64_t outer = par[0], inner = par[1], unit = f->kind == TLK_FFT_TO_REALS ? 1 : 2;
	const int64_t out = f->kind == TLK_FFT_OF_REALS ? f->n / 2 + 1 : f->n;
	tl_fft_run r = {.f = f, .pool = pool, .in = buf[0] + par[5] * width, .out = buf[1], .x = {par[3], par[4], par[2]},
		.y = {inner * unit, unit, out * inner * unit}, .lanes = inner};
	int64_t other = outer;
	if (f->lanes_outer) {
		r.x = (tl_fft_strides){par[3], par[2], par[4]};
		r.y = (tl_fft_strides){inner * unit, out * inner * unit, unit};
		r.lanes = outer, other = inner;
	}
	if (f->column) {
		const int w = tl_fft_lanes(isa, f->type);
		r.blocks = (r.lanes + w - 1) / w;
		tl_parallel(pool, other * r.blocks, TLK_FFT_GRAIN / (w * f->n) + 1, wide ? t->fft_columns64 : t->fft_columns32, &r);
		return r.oom;
	}
	const tl_job job = wide ? t->fft_rows64 : t->fft_rows32;
	r.alone = outer * inner < tl_pool_threads(pool) && f->n > 2 * TLK_FFT_GRAIN;
	if (r.alone) job(&r, 0, 0, outer * inner);
	else tl_parallel(pool, outer * inner, TLK_FFT_GRAIN / f->n + 1, job, &r);
	return r.oom;
}

int tl_fft_lanes(int isa, int type) {
	const int lanes = isa >= TLK_ISA_AVX512 ? 16 : isa >= TLK_ISA_AVX2 ? 8 : 4;
	return type == TLK_F64 ? lanes / 2 : lanes;
}
