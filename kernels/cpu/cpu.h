// The C side of the CPU device: programs as flat data, run in one call.
#ifndef TORCHLETTE_CPU_H
#define TORCHLETTE_CPU_H

#include <stdint.h>
#include <stddef.h>

#define TL_MAX_DIMS 20

// Element types; the numbers are those of ir.DType.
enum { TL_BOOL = 1, TL_I32, TL_I64, TL_U32, TL_F16, TL_BF16, TL_F32, TL_F64, TL_U8, TL_I8, TL_I16, TL_TYPES };

// Instructions of a block program.
enum {
	TL_NOP,
	// Leaves.
	TL_CONST,  // imm: bits
	TL_PARAM,  // aux: parameter
	TL_LOAD,   // aux: affine; type: storage type
	TL_DIRECT, // aux: affine; the register becomes a pointer into the buffer; imm 1: for writing, row after row
	TL_IOTA,   // aux: affine; its element numbers as i64
	TL_GATHER, // aux: buffer; a: element numbers; type: storage type
	TL_FINAL,  // aux: accumulator: its value, one lane an outer index
	TL_FINALIDX,
	TL_EXPAND, // one lane, or the outer lanes, repeated over the tile
	// Conversions. CAST: var is the source type.
	TL_CAST,
	// Elementwise. var of binary ones: bit 0: b is one lane, bit 1: a is one lane. Of EXP: 1: of a - b, b one lane.
	TL_ADD, TL_SUB, TL_MUL, TL_DIV, TL_REM, TL_MIN, TL_MAX, TL_POW, TL_LOGADD,
	TL_EQ, TL_NE, TL_LT, TL_LE, TL_AND, TL_OR, TL_XOR, TL_SHL, TL_SHR,
	TL_NEG, TL_ABS, TL_NOT, TL_FLOOR, TL_CEIL, TL_ROUND, TL_TRUNC,
	TL_SQRT, TL_EXP, TL_LOG, TL_SIN, TL_COS, TL_TANH, TL_ERF, TL_ISNAN,
	// var: as TL_SELECT; 4: (a - x) * y for a; 5: (a - x) * y + (b * z + w); x, y, z and w: registers of one lane listed
	// from aux in kern.extra
	TL_FMA,
	TL_SHIFTED, // (a - b) * c, b and c one lane
	TL_SELECT, // var: bit 0: c is one lane, bit 1: b is one lane
	TL_PHILOX, // d..: four registers listed from aux in kern.extra; a, b, c: counter, Philox offset, key
	// Accumulators. var: 0 rows of a tile, 1 columns of a tile (imm: elements from row to row, 0: the tile's).
	// Of SUM, in rows of a tile: 3 the products of a and b, 4 the squares of a - b, b one lane, 5 the products of a and b
	// - c, c one lane; and of a tile that is one row of columns: 6 the products of a and (b - c) * z, c and z one lane,
	// imm the place of z in kern.extra. Of ARGMAX and ARGMIN: b: index, imm its type; b -1: the number of the inner index.
	TL_SUM, TL_PROD, TL_AMAX, TL_AMIN, TL_ARGMAX, TL_ARGMIN, TL_ANY, TL_ALL, TL_LOGSUM,
	TL_SCAN, // d: running values; b: where they go while only totals are made, -1: to d; var: the operation
	// Effects.
	TL_STORE,  // aux: affine; a: value; type: storage type; imm 1: past the caches, but near buffers
	TL_SCATTER, // aux: buffer; a: value; b: element numbers; c: guard or -1; imm: loopir.StoreMode
	TL_CHECK,  // a: condition, b: reported element
	TL_OPS
};

enum { TL_LANE_ONE, TL_LANE_OUTER, TL_LANE_TILE, TL_LANE_KINDS };

struct tl_ctx;
struct tl_ins;
typedef void (*tl_fn)(struct tl_ctx *, const struct tl_ins *);

typedef struct tl_ins {
	tl_fn fn;
	int32_t d, a, b, c;
	uint8_t op, type, var, lanes;
	int32_t aux;
	int64_t imm;
} tl_ins;

// A dim of a tile: mul elements, times the run-time chunk length dyn when that is not 0
// (1: outer chunk, 2: inner chunk, 3: outer chunk of the second cut dim).
typedef struct { int32_t mul, dyn; int64_t stride; } tl_dim;
typedef struct { int32_t nd; tl_dim d[TL_MAX_DIMS]; } tl_walk;

// An affine map of the index space to elements of a buffer (buf -1: to numbers).
typedef struct {
	int32_t buf, type, offset; // offset: parameter or -1
	int64_t base;
	int64_t ostride[TL_MAX_DIMS], istride[TL_MAX_DIMS];
	tl_walk walk[TL_LANE_KINDS];
} tl_affine;

typedef struct { tl_ins *at; int32_t n; } tl_seg;

typedef struct {
	uint8_t op, type, itype, col;
	int32_t bytes; // of one lane's state
} tl_acc;

// A register of a bundle of rows that has a place for each row, bytes apart.
typedef struct { int32_t reg, bytes; } tl_stride;

typedef struct {
	int32_t over_inner;
	int32_t prefix; // instructions of inner that make the accumulators of a Prefix stage over rows, else 0
	int32_t whole;  // the inner space is not cut into chunks
	int32_t acc0, nacc, hidden0, nhidden; // its accumulators; those that keep running extremes
	tl_seg outer;    // once an outer tile
	tl_seg prologue; // once an outer tile and worker, before the inner tiles
	tl_seg inner;    // once an inner tile, in a bundle once a row
	tl_stride *stride; // of the registers that inner uses in a bundle
	int32_t nstride;
} tl_stage;

// One group of dims and how it is cut into chunks: dim t in pieces of chunk, the dims after it whole.
// A second dim u before t may be cut too, in pieces of uchunk; u is -1 when there is none.
typedef struct {
	int32_t n, t, u;
	int64_t uchunk, upieces;
	int64_t size[TL_MAX_DIMS];
	int64_t chunk, trail, pieces; // trail: elements of the dims after t; pieces: of dim t
	int64_t tiles;                // in all
} tl_space;

typedef struct tl_kern {
	tl_space outer, inner;
	int32_t nreg, nuniform, nstage, nacc;
	int64_t ocap, fcap;      // most lanes of the outer and tile kind
	uint32_t *regoff;        // arena offset of each register
	int64_t arena;           // bytes of a worker's registers
	int64_t state;           // bytes of one set of accumulators
	int64_t chunk_tiles;     // inner tiles that accumulate apart, a constant of the shape
	int64_t grain;           // outer tiles a claim
	int64_t rows;            // of a bundle: an outer tile of which inner takes one row at a time; else 1
	int32_t parallel_outer, parallel_inner;
	int32_t nshared; // registers below hold uniform and outer values; those below nuniform are uniform
	tl_seg uniform, wpro;
	tl_stage *stage;
	tl_acc *acc;
	tl_affine *affine;
	int32_t *extra;
} tl_kern;

typedef struct {
	int64_t batch[3], M, N, K;
	int64_t ab[3], am, ak, ao, bb[3], bk, bn, bo, biasn, biaso, cb[3], cm, cn, co;
	int64_t ks[4], akd[4], bkd[4], ns[4], bnd[4]; // of the nk dims of K and the nn dims of N
	int32_t nbatch, type, bias, nk, nn;
	int32_t noperand; // buffers that the epilogue reads beside C
	const tl_kern *epilogue; // a map over the elements of C; NULL for none
} tl_gemm;
enum { TL_EPILOGUE_OPERANDS = 4 };

// A run of columns of a panel of B: from column to, of elements that are step apart, the first at from.
typedef struct { int64_t to, n, from; } tl_piece;

// A pass of attention: numbers of parameters (of an operand the first of five) and of buffers, -1
// for what the pass lacks; pass is launch.AttentionPass, mask the mask's type or 0. dq is the buffer of dq where the
// pass of dk and dv makes that too; the pass before it is then left out, with pass TL_ATTENTION_NONE.
enum { TL_ATTENTION_NONE = -1 };
typedef struct {
	int32_t type, pass, causal, mask, dropout;
	int32_t sum[4]; // of the gradient of the mask: launch.Attention.Sum
	int32_t batch, heads, keyheads, queries, keys, width, widthv, scale, seed, draw_offset, rate;
	int32_t q, k, v, m, g;
	int32_t bq, bk, bv, bm, bg, bstats, out0, out1, dq;
} tl_attention;

// A sort of rows: numbers of parameters and buffers; room -1 without.
typedef struct {
	int32_t type, descending, room;
	int32_t outer, n, inner, keep, souter, step, sinner, offset;
} tl_sort;

// A factorisation of each matrix of a batch; the numbers of op are those of launch.FactorOp, option and check its
// fields.
typedef struct {
	int32_t op, type, option, check, nin;
	uint32_t event;
} tl_factor;

enum { TL_CHAIN_MAX = 16 };
enum { TL_STEP_KERNEL, TL_STEP_GEMM, TL_STEP_ATTENTION, TL_STEP_FACTOR, TL_STEP_SORT, TL_STEP_COPY, TL_STEP_ZERO };

// A parameter that a run sets: bits, plus an offset or, where that is -1, a scalar.
typedef struct { int32_t par, offset, scalar; int64_t bits; } tl_dynpar;

// A value that only a chain knows has no buffer: its tile, of elements of width bytes, is at that byte of a worker's
// scratch.
typedef struct { int32_t buf, width; int64_t at; } tl_tile;

// event is the step's number in data errors. chain: this step and those after it, in all, which may run tile by tile
// together; 0: none. They may where the parameters zero, of each, are 0. A buffer of bit near is then read soon after
// it is written. tile: the buffers that are tiles; tiles: the bytes of all tiles, at the chain's first step.
typedef struct {
	int32_t kind, nbuf, ndyn, npar, chain, nzero, ntile;
	int32_t redo; // it reads nothing that it writes: stopped midway, it can be run again
	uint32_t event;
	uint64_t near;
	int64_t tiles;
	int32_t *zero;
	tl_tile *tile;
	const tl_kern *kern;
	tl_gemm *gemm;
	tl_attention *attention;
	tl_factor *factor;
	tl_sort *sort;
	int32_t *slot;
	char **buf;
	int64_t *par;
	tl_dynpar *dyn;
} tl_step;

typedef struct {
	int32_t nstep, nslot;
	tl_step *step;
	char **slots;
} tl_prog;

typedef struct { int32_t set; uint32_t event; int64_t elem, order; } tl_fault;

// Accumulator state of a set; the layout is acc by acc. before: of a chunk of a Prefix stage, the state of the chunks
// before it, or NULL.
typedef struct { void *st; const void *before; int64_t *idx; float *part; int64_t count; } tl_accst;

typedef struct tl_ctx {
	void **reg;
	int64_t n[TL_LANE_KINDS];
	int64_t chunk[4], ilanes;
	const tl_kern *k;
	char **buf;
	const int64_t *par;
	int64_t opos[TL_MAX_DIMS], ipos[TL_MAX_DIMS];
	uint64_t near; // as in tl_step, where the step runs in a chain
	tl_accst *acc;
	char *arena;
	int64_t order;
	struct tl_pool *watch; // whose request to stop is polled between inner tiles; NULL: the tile is worked to its end
	int32_t halted;        // it was, and the tile is not finished
	int32_t totals; // a Prefix stage's values are not needed, only its accumulators
	int32_t failed;
	int64_t fail_order, fail_elem;
} tl_ctx;

enum { TL_MAX_WORKERS = 256 };
typedef struct tl_pool tl_pool;
typedef void (*tl_job)(void *arg, int worker, int64_t begin, int64_t end);

tl_pool *tl_pool_new(int threads);
void tl_pool_free(tl_pool *);
int tl_pool_threads(tl_pool *);
// Runs job over [0, n) in pieces of grain claimed from a counter; the caller is worker 0. Returns n, or where a request
// to stop came: all before it has been run, and nothing from there on.
int64_t tl_parallel(tl_pool *, int64_t n, int64_t grain, tl_job job, void *arg);
// The same without looking for requests to stop.
void tl_parallel_whole(tl_pool *, int64_t n, int64_t grain, tl_job job, void *arg);
// Loops poll word, by the rule of device.Stop, from now on; NULL: nothing asks to stop. They also stop patience
// nanoseconds after the first look at the clock, which comes with every eighth poll; 0: the clock stops nothing.
void tl_watch(tl_pool *, int32_t *word, int64_t patience);
// Loops look for requests to stop (1), or leave them for later (0).
void tl_attend(tl_pool *, int on);
// Whether the work at hand is to stop. Once it is, it is until the next tl_watch.
int tl_stop_asked(tl_pool *);
int tl_cut(tl_pool *); // the same without polling
// Scratch memory of a worker, or of the loop at hand with worker -1, at least bytes, 64-byte aligned; NULL when there
// is none.
void *tl_scratch(tl_pool *, int worker, int64_t bytes);

int tl_isa(void);             // best instruction set of this processor: 0 plain, 1 AVX2+FMA, 2 AVX-512
const char *tl_isa_name(int); // for people
tl_fn tl_lookup(int isa, const tl_ins *);
// Fills in the functions of a kernel's instructions; returns the number of those that do not exist.
int tl_kern_link(tl_kern *, int isa);

// Where a run begins or has stopped: a step, and how many of its outer tiles are done. begun: steps from there on have
// written nothing.
typedef struct { int64_t step, tile, begun; } tl_place;

enum { TL_UNCHAINED = -1, TL_STOPPED = -2 };
// Runs a program from at on; stop and patience are those of tl_watch. Returns 0, or the bytes that could not be
// allocated, or TL_UNCHAINED: a chain whose values have no buffers does not hold, or TL_STOPPED, with at where the next
// run begins.
int64_t tl_run(tl_prog *, tl_pool *, int isa, const int64_t *offsets, const uint64_t *scalars, tl_fault *,
	int64_t *times, // NULL, or room for when each step begins and the last ends, by tl_nanoseconds
	int32_t *stop, int64_t patience, tl_place *at);
int64_t tl_nanoseconds(void); // of a clock that does not go back
// A map of one dim and no parameters over some elements: tl_map_enter binds it to buffers, by a worker's memory of
// tl_map_bytes, aligned to 64 bytes; tl_map_run works n elements from element at.
enum { TL_MAP_LANES = 512 }; // at once: registers that stay in L1 beside the tiles of a product
int64_t tl_map_bytes(const tl_kern *);
void tl_map_enter(tl_ctx *, const tl_kern *, char **buf, char *mem);
void tl_map_run(tl_ctx *, int64_t at, int64_t n);
int64_t tl_run_gemm(const tl_gemm *, tl_pool *, int isa, char **buf, const int64_t *par);
int64_t tl_run_attention(const tl_attention *, tl_pool *, int isa, char **buf, const int64_t *par);
int64_t tl_run_factor(const tl_factor *, tl_pool *, int isa, char **buf, const int64_t *par, tl_fault *);
// c = a b of doubles, c in rows of cm; with parallel the pool shares it, else it is the worker's own. Returns as
// tl_run.
int64_t tl_gemm_f64(tl_pool *, int isa, int worker, int parallel, int64_t M, int64_t N, int64_t K, const double *a,
	int64_t am, int64_t ak,
	const double *b, int64_t bk, int64_t bn, double *c, int64_t cm);
int64_t tl_run_sort(const tl_sort *, tl_pool *, char **buf, const int64_t *par);

float tl_widen_f16(uint16_t);
float tl_widen_bf16(uint16_t);
uint16_t tl_narrow_f16(float);
uint16_t tl_narrow_bf16(float);
void tl_random_block(uint64_t counter, uint64_t draw_offset, uint64_t seed, uint32_t out[4]); // Philox

void *tl_alloc(int64_t bytes);
void tl_cpu_free(void *);

// What each instruction set provides.
typedef struct {
	const tl_fn (*fn)[TL_TYPES][TL_TYPES];
	// C[mr][nr] (+)= A B over kc steps; strides in elements. first: C is overwritten.
	// Tiles are mr x nr at most, along x nr where rows of A are read as they lie against a packed B.
	int mr32, nr32, mr64, nr64, along;
	void (*gemm32)(int mr, int64_t kc, const float *a, int64_t am, int64_t ak, const float *b, int64_t bk, float *c,
		int64_t cm, int first);
	void (*gemm64)(int mr, int64_t kc, const double *a, int64_t am, int64_t ak, const double *b, int64_t bk, double *c,
		int64_t cm, int first);
	void (*packb32)(const float *b, int64_t bk, int64_t bn, int64_t kc, int64_t n, float *dst);
	void (*packb64)(const double *b, int64_t bk, int64_t bn, int64_t kc, int64_t n, double *dst);
	// C[mr][nr] = A B with row k of B at b + row[k]; and the runs of a tile of C, from columns of the tile to those of c.
	void (*gemmrows32)(int mr, int64_t kc, const float *a, int64_t am, int64_t ak, const float *b, const int64_t *row,
		float *c, int64_t cm);
	void (*gemmrows64)(int mr, int64_t kc, const double *a, int64_t am, int64_t ak, const double *b, const int64_t *row,
		double *c, int64_t cm);
	void (*putruns32)(const float *tile, int64_t rows, const tl_piece *run, int64_t runs, float *c, int64_t cm);
	void (*putruns64)(const double *tile, int64_t rows, const tl_piece *run, int64_t runs, double *c, int64_t cm);
	// Panels of a B of several dims. packruns: row k begins at b + row[k], its columns are runs of elements step
	// apart; up to bend may be read, and up to dend written. packturn: column j begins at b + col[j], its rows are
	// contiguous.
	void (*packruns32)(const float *b, const float *bend, const int64_t *row, int64_t kc, const tl_piece *run,
		int64_t nrun, int64_t step, float *dst, const float *dend);
	void (*packruns64)(const double *b, const double *bend, const int64_t *row, int64_t kc, const tl_piece *run,
		int64_t nrun, int64_t step, double *dst, const double *dend);
	void (*packturn32)(const float *b, const int64_t *col, int64_t kc, int64_t n, float *dst);
	void (*packturn64)(const double *b, const int64_t *col, int64_t kc, int64_t n, double *dst);
	void (*packa32)(const float *a, int64_t am, int64_t ak, int64_t kc, int64_t rows, float *dst);
	void (*packa64)(const double *a, int64_t am, int64_t ak, int64_t kc, int64_t rows, double *dst);
	void (*bias32)(float *c, const float *bias, int64_t biasn, int64_t n);
	void (*bias64)(double *c, const double *bias, int64_t biasn, int64_t n);
	void (*dot32)(int64_t n, int64_t k, const float *a, int64_t ak, const float *b, int64_t bn, float *c, int64_t cn);
	void (*dot64)(int64_t n, int64_t k, const double *a, int64_t ak, const double *b, int64_t bn, double *c, int64_t cn);
	void (*axpy32)(int64_t n, int64_t k, const float *a, int64_t ak, const float *b, int64_t bk, float *c);
	void (*axpy64)(int64_t n, int64_t k, const double *a, int64_t ak, const double *b, int64_t bk, double *c);
	void (*attention_softmax)(int64_t rows, int64_t n, float *s, int64_t ld, float *top, float *sum, float *out,
		int64_t w);
	void (*attention_weights)(int64_t rows, int64_t n, float *s, float *dp, int64_t ld, const float *lse,
		const float *delta, int columns);
} tl_isa_table;

extern const tl_isa_table tl_table_base, tl_table_avx2, tl_table_avx512;
const tl_isa_table *tl_isa_tables(int isa);

#endif
