// The C side of the CPU device: programs as flat data, run in one call.
#ifndef TORCHLETTE_CPU_H
#define TORCHLETTE_CPU_H

#include <stddef.h>
#include <stdint.h>
#include "dtypes.h"
#include "pieces.h"
#include "pool.h"

#define TLK_MAX_DIMS 20

// Instructions of a block program.
enum {
	TLK_NOP,
	// Leaves.
	TLK_CONST,  // imm: bits
	TLK_PARAM,  // aux: parameter
	TLK_LOAD,   // aux: affine; type: storage type
	TLK_DIRECT, // aux: affine; the register becomes a pointer into the buffer; imm 1: it is written, row after row
	TLK_IOTA,   // aux: affine; the element numbers as i64
	TLK_GATHER, // aux: buffer; a: element numbers; type: storage type
	TLK_FINAL,  // aux: accumulator; its value, one lane for each outer index
	TLK_FINALIDX,
	TLK_EXPAND, // one lane, or the outer lanes, repeated over the tile
	// Conversions. var of TLK_CAST is the source type.
	TLK_CAST,
	// Elementwise. var of a binary instruction: bit 0: b has one lane; bit 1: a has one lane. var of TLK_EXP: 1: exp(a -
	// b) with b of one lane.
	TLK_ADD, TLK_SUB, TLK_MUL, TLK_DIV, TLK_REM, TLK_MIN, TLK_MAX, TLK_POW, TLK_LOGADD,
	TLK_EQ, TLK_NE, TLK_LT, TLK_LE, TLK_AND, TLK_OR, TLK_XOR, TLK_SHL, TLK_SHR,
	TLK_NEG, TLK_ABS, TLK_NOT, TLK_FLOOR, TLK_CEIL, TLK_ROUND, TLK_TRUNC,
	TLK_SQRT, TLK_EXP, TLK_LOG, TLK_SIN, TLK_COS, TLK_TANH, TLK_ERF, TLK_ISNAN,
	// a * b + c. var: the bits of TLK_SELECT; or 4: (a - x) * y + c; or 5: (a - x) * y + (b * z + w). x, y, z and w are
	// registers of one lane, listed in kern.extra from aux on.
	TLK_FMA,
	TLK_SHIFTED, // (a - b) * c; b and c have one lane
	TLK_SELECT, // a ? b : c. var: bit 0: c has one lane; bit 1: b has one lane
	TLK_DRAW, // results: a register for each part, in kern.extra from aux on; a, b, c: element, Philox offset, seed
	// Accumulators. var 0: along the rows of a tile; 1: along its columns (imm: elements from row to row, 0 for the
	// tile's).
	//
	// TLK_SUM along rows has three more: 3: the products a * b; 4: the squares of a - b, b of one lane; 5: the products
	// a * (b - c), c of one lane. TLK_SUM over a tile that is one row of columns has 6: the products a * (b - c) * z, c
	// and z of one lane, imm the place of z in kern.extra. TLK_SUM over columns has 7: the products a * b, which are those
	// of 6 where b is made of (b - c) * z.
	//
	// TLK_ARGMAX and TLK_ARGMIN: b is the index and imm its type; without a register (b -1) it is the number of the inner
	// index.
	TLK_SUM, TLK_PROD, TLK_AMAX, TLK_AMIN, TLK_ARGMAX, TLK_ARGMIN, TLK_ANY, TLK_ALL, TLK_LOGSUM,
	TLK_SCAN, // d: running values; b: where they go while only totals are made, -1: to d; var: the operation
	// Effects.
	TLK_STORE,  // aux: affine; a: value; type: storage type; imm 1: bypass the caches, unless the buffer is marked cached
	TLK_SCATTER, // aux: buffer; a: value; b: element numbers; c: guard or -1; imm: loopir.StoreMode
	TLK_CHECK,  // a: condition, b: reported element
	TLK_CODE,   // imm: the address of machine code, a tl_code
	TLK_OPS
};

#define TLK_PHILOX 16 // Philox blocks that are made beside each other

enum { TLK_LANE_ONE, TLK_LANE_OUTER, TLK_LANE_TILE, TLK_LANE_KINDS };

struct tl_ctx;
struct tl_ins;
typedef void (*tl_fn)(struct tl_ctx *, const struct tl_ins *);

#if defined(__x86_64__)
#define TLK_CODE_CALL __attribute__((sysv_abi))
#else
#define TLK_CODE_CALL
#endif
// Computes lanes elements of registers; reg is tl_ctx.reg.
typedef void TLK_CODE_CALL tl_code(void **reg, int64_t lanes);

typedef struct tl_ins {
	tl_fn fn;
	int32_t d, a, b, c;
	uint8_t op, type, var, lanes;
	int32_t aux;
	int64_t imm;
} tl_ins;

// A dim of a tile has mul elements, times the run-time length of a chunk where dyn is not 0. dyn 1: outer chunk; 2:
// inner chunk; 3: outer chunk of the second cut dim.
typedef struct { int32_t mul, dyn; int64_t stride; } tl_dim;
typedef struct { int32_t nd; tl_dim d[TLK_MAX_DIMS]; } tl_walk;

// An affine map from the index space to elements of a buffer, or to plain numbers where buf is -1.
typedef struct {
	int32_t buf, type, offset; // offset: a parameter, or -1
	int64_t base;
	int64_t ostride[TLK_MAX_DIMS], istride[TLK_MAX_DIMS];
	tl_walk walk[TLK_LANE_KINDS];
} tl_affine;

typedef struct { tl_ins *at; int32_t n; } tl_seg;

typedef struct {
	uint8_t op, type, itype, col;
	int32_t bytes; // of one lane's state
} tl_acc;

// A register that has a place for each row of a bundle; bytes is the distance between two places.
typedef struct { int32_t reg, bytes; } tl_stride;

typedef struct {
	int32_t over_inner;
	int32_t prefix; // instructions of inner that make the accumulators, in a Prefix stage over rows; else 0
	int32_t whole;  // the inner space is not cut into chunks
	int32_t acc0, nacc, hidden0, nhidden; // first and count of its accumulators; then of those that keep running extremes
	tl_seg outer;    // runs once for each outer tile
	tl_seg prologue; // runs once for each outer tile and worker, before the inner tiles
	tl_seg inner;    // runs once for each inner tile; in a bundle once for each row
	tl_stride *stride; // the registers that inner uses in a bundle
	int32_t nstride;
} tl_stage;

// An index space, and how it is cut into tiles: dim t into pieces of chunk elements, the dims after t not at all. A dim
// u before t may be cut too, into pieces of uchunk elements; u is -1 if none is.
typedef struct {
	int32_t n, t, u;
	int64_t uchunk, upieces;
	int64_t size[TLK_MAX_DIMS];
	int64_t chunk, trail, pieces; // trail: elements of the dims after t; pieces: of dim t
	int64_t tiles;                // in all
} tl_space;

typedef struct tl_kern {
	tl_space outer, inner;
	int32_t nreg, nuniform, nstage, nacc;
	int64_t ocap, fcap;      // largest number of outer and of tile lanes
	uint32_t *regoff;        // offset of each register in the arena
	int64_t arena;           // bytes of a worker's registers
	int64_t state;           // bytes of one set of accumulators
	int64_t chunk_tiles;     // inner tiles that accumulate apart; depends on the shape only
	int64_t grain;           // outer tiles of one claim from the pool
	int64_t rows;            // of a bundle, an outer tile of which inner works one row at a time; else 1
	int32_t parallel_outer, parallel_inner;
	int32_t nshared; // registers below nshared hold uniform and outer values; those below nuniform are uniform
	tl_seg uniform, wpro;
	tl_stage *stage;
	tl_acc *acc;
	tl_affine *affine;
	int32_t *extra;
} tl_kern;

enum { TLK_EPILOGUE_OPERANDS = 4 };

typedef struct {
	int64_t batch[3], M, N, K;
	int64_t ab[3], am, ak, ao, bb[3], bk, bn, bo, biasn, biaso, cb[3], cm, cn, co;
	int64_t ks[4], akd[4], bkd[4], ns[4], bnd[4]; // of the nk dims of K and the nn dims of N
	int32_t nbatch, type, bias, nk, nn;
	// The epilogue is a map over the elements of C, or NULL. It has noperand buffers beside C, of these element sizes, the
	// last nresult of which it writes, and nscalar parameters, of these numbers. numbered: it depends on the number of an
	// element.
	const tl_kern *epilogue;
	int32_t noperand, nresult, nscalar, numbered, width[1 + TLK_EPILOGUE_OPERANDS];
	const int32_t *scalar;
	// nview of its operands are read by strides over the columns and the dims of a row's number: those that are set, once
	// if they are floats that do not depend on the column.
	int32_t nview, rowdims;
	int64_t rowsize[3];
	struct { int32_t set, once; int64_t row[3], n, offset; } view[TLK_EPILOGUE_OPERANDS];
	int32_t padded;
	struct { int64_t size, step, gap, front; } pad[2]; // with padded, of both dims of the picture
	const char *pack; // B in panels of all its rows (tl_gemm_pack), or NULL
	const char *apack; // the transposed A in such panels, or NULL
} tl_gemm;

// A pass of attention: the numbers of its parameters and buffers, -1 for those that it lacks. An operand has five
// parameters in a row; its field is the number of the first. pass is launch.AttentionPass; mask is the mask's type or
// 0. If the pass of dk and dv computes dq too, dq is the buffer of that result, and the pass of dq before it becomes
// TLK_ATTENTION_NONE, which does nothing.
enum { TLK_ATTENTION_NONE = -1 };
typedef struct {
	int32_t type, pass, causal, mask, dropout;
	int32_t sum[4]; // of the gradient of the mask: launch.Attention.Sum
	int32_t batch, heads, keyheads, queries, keys, width, widthv, scale, seed, draw_offset, rate;
	int32_t q, k, v, m, g;
	int32_t bq, bk, bv, bm, bg, bstats, out0, out1, dq;
} tl_attention;

// A sort of rows: numbers of its parameters and buffers; indices and room are -1 where the sort lacks them.
typedef struct {
	int32_t type, descending, indices, room;
	int32_t outer, n, inner, keep, souter, step, sinner, offset;
} tl_sort;

// A factorisation of each matrix of a batch. The values of op are those of launch.FactorOp; option and check are its
// fields.
typedef struct {
	int32_t op, type, option, check, nin;
	uint32_t event;
} tl_factor;

// A Fourier transform. Tables hold numbers of the transform's type, cosine and sine (or minus the sine) of each root.
//
// A pass has radix r over n = r m s elements; turn has the roots exp(-2 pi i p k / (r m)) for p from 1 to m-1 and k
// from 1 to r-1, root those of r.
typedef struct { int64_t r, m, s; const void *turn, *root; } tl_fft_pass;
// A column transform of n elements: passes, or a convolution by transforms of conv.
typedef struct tl_fft_column {
	int64_t n, passes;
	const tl_fft_pass *pass;
	const struct tl_fft_column *conv;
	const void *chirp, *spectrum;
} tl_fft_col;
// A row transform of n = n1 n2 elements: columns of n1, products by roots, columns of n2; or a convolution by conv.
// turn has the roots for each block of columns, in padded rows; or those of the first block, and the root of a block's
// first column is the product of one of high and one of low.
typedef struct tl_fft_row {
	int64_t n, n1, n2, padded, bits;
	const tl_fft_col *first, *second;
	const void *turn;
	const double *high, *low;
	const struct tl_fft_row *conv;
	const void *chirp, *spectrum;
} tl_fft_row;
enum { TLK_FFT_FORWARD, TLK_FFT_INVERSE, TLK_FFT_OF_REALS, TLK_FFT_TO_REALS, TLK_FFT_ALL };
enum { TLK_FFT_PRIME = 61 };       // the largest prime that is a radix
enum { TLK_FFT_GRAIN = 1 << 13 };  // elements of a claim from the pool
// kind is launch.FFT.Kind; n counts real numbers where one side is real. column is set where lanes of a vector are
// transforms, else row. lanes_outer: these lie along the outer dim. rows is the room of a column's buffer, between and
// room are numbers of scratch. root has exp(-2 pi i k / n) for real transforms.
typedef struct {
	int32_t type, kind, lanes_outer;
	int64_t n, rows, between, room;
	double scale;
	const tl_fft_col *column;
	const tl_fft_row *row;
	const void *root;
} tl_fft;

// A product with quantized weights: launch.Quantized. group is the number of terms that share a scale.
typedef struct { int32_t bits, offset, bias, dynamic; int64_t group; } tl_quantized;
// Columns of a panel of quantized weights, the terms to which rows of int8 are padded, and the rows of a low tile.
enum { TLK_PANEL = 16, TLK_TERMS = 64, TLK_TILE_ROWS = 4 };

enum { TLK_GROUP_MAX = 16 };
enum { TLK_STEP_KERNEL, TLK_STEP_GEMM, TLK_STEP_ATTENTION, TLK_STEP_FACTOR, TLK_STEP_SORT, TLK_STEP_COPY,
	TLK_STEP_ZERO, TLK_STEP_LOOP, TLK_STEP_FFT, TLK_STEP_QUANTIZED };

// A parameter that is set for each run: bits plus an offset, or plus a scalar where offset is -1.
typedef struct { int32_t par, offset, scalar; int64_t bits; } tl_dynpar;

// A value that only one fusion group uses has no buffer: its tile lies at byte `at` of a worker's scratch, in elements
// of width bytes.
typedef struct { int32_t buf, width; int64_t at; } tl_tile;

// A step. event is its number in data errors.
//
// group, on the first step of a fusion group, is the number of its steps, else 0. The steps run tile by tile if, in
// each, the parameters that zero lists are 0. cached has a bit for each buffer whose stores go through the caches,
// because a later step of the group reads them. tile lists the buffers that exist only as tiles; tiles, on the first
// step, is the bytes of all these tiles.
typedef struct {
	int32_t kind, nbuf, ndyn, npar, group, nzero, ntile;
	int32_t rerunnable; // it reads nothing that it writes: after a stop midway it can run again
	uint32_t event;
	uint64_t cached;
	int64_t tiles;
	int32_t *zero;
	tl_tile *tile;
	const tl_kern *kern;
	tl_gemm *gemm;
	tl_attention *attention;
	tl_factor *factor;
	tl_sort *sort;
	tl_fft *fft;
	tl_quantized *quantized;
	struct tl_loop *loop;
	const char *winograd; // packed weights of a convolution (tl_winograd_pack, tl_conv8_pack), or NULL
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

// A loop: device.Loop. wire gives slots of prog their memory; the first stay of them have it for all iterations.
// scalars has the numbers of one iteration. Offsets of draws among them are the numbers in constants plus the loop's
// first offset. condition is the wire of the carry that ends the loop, or -1.
enum { TLK_WIRE_STAYS, TLK_WIRE_ADVANCES, TLK_WIRE_CARRY_IN, TLK_WIRE_CARRY_OUT };
typedef struct { int32_t slot, route, buf, operand, width, carry, kept, spare, last; int64_t bytes; } tl_wire;
typedef struct tl_loop {
	tl_prog *prog;
	int32_t nwire, stay, ndraw, operands, reverse, condition;
	int64_t length, drawn;
	int32_t *draw;
	tl_wire *wire;
	char **carry; // where the last iteration wrote each carry
	int64_t *offsets;
	uint64_t *scalars, *constants;
	struct tl_resident *resident; // NULL: none
} tl_loop;

// The resident form of a loop: machine code that runs iterations of one block of lanes with carries in registers. It
// takes a table of addresses and the number of iterations, and returns how many are left where the condition has ended
// the loop.
enum { TLK_ENTRY_SAME, TLK_ENTRY_MOVES, TLK_ENTRY_CARRY_IN, TLK_ENTRY_CARRY_OUT, TLK_ENTRY_KEPT, TLK_ENTRY_CALL };
enum { TLK_MOST_ENTRIES = 256 };
typedef int64_t TLK_CODE_CALL tl_iterate(void **table, int64_t iterations);

// A function of the lanes of one or two vectors, step bytes apart, which begin at area; the result comes behind them.
typedef struct tl_lanes {
	void TLK_CODE_CALL (*enter)(const struct tl_lanes *, char *area);
	tl_ins ins;
	int64_t n, step;
} tl_lanes;
void TLK_CODE_CALL tl_call_lanes(const tl_lanes *, char *area);

// An entry of the table: lane and place are the bytes to the next lane and to the next place.
typedef struct { int32_t role, buf, operand, width, carry; int64_t lane, place; tl_lanes *call; } tl_entry;
// A carry: where it comes from, its last value, and a spare buffer, or the buffer that keeps all values; -1: none.
typedef struct { int32_t buf, operand, width, out, kept, spare; int64_t bytes; char *now, *next; } tl_resident_carry;
typedef struct tl_resident {
	tl_iterate *code;
	int64_t lanes, block, cost; // cost: operations of a block in one iteration
	int32_t nentry, ncarry;
	tl_entry *entry;
	tl_resident_carry *carry;
} tl_resident;
enum { TLK_EVENT_BITS = 40 }; // ir.LoopEventBits

// The state of one accumulator in a set. before, in a Prefix stage, is the state of the chunks before this one, else
// NULL.
typedef struct { void *st; const void *before; int64_t *idx; float *part; int64_t count; } tl_accst;

typedef struct tl_ctx {
	void **reg;
	int64_t n[TLK_LANE_KINDS];
	int64_t chunk[4], ilanes;
	const tl_kern *k;
	char **buf;
	const int64_t *par;
	int64_t opos[TLK_MAX_DIMS], ipos[TLK_MAX_DIMS];
	uint64_t cached; // as in tl_step, where the step runs in a fusion group
	tl_accst *acc;
	char *arena;
	int64_t order;
	struct tl_pool *watch; // polled for requests to stop between inner tiles; NULL: the outer tile is always finished
	int32_t halted;        // a request to stop was seen: the outer tile is not finished
	int32_t totals; // a Prefix stage needs only its accumulators, no values
	int32_t failed;
	int64_t fail_order, fail_elem;
} tl_ctx;

// Instruction sets, each with those before it: TLK_ISA_AVX2_VNNI adds products of int8 to AVX2; those after
// TLK_ISA_AVX512 differ from it by their products of int8 and bfloat16.
enum { TLK_ISA_PLAIN, TLK_ISA_AVX2, TLK_ISA_AVX2_VNNI, TLK_ISA_AVX512, TLK_ISA_AVX512_VNNI, TLK_ISA_AVX512_BF16,
	TLK_ISA_AMX, TLK_ISAS };
int tl_isa(void);             // the best instruction set of this processor
// Whether products pack rows of A that stay in L2: on Intel with AVX-512 the tile that reads 14 rows in place takes 60
// instructions a step, since it keeps addresses on the stack, and 50 with packed rows.
int tl_packs_rows(int isa);
int tl_isa_has(int isa);      // whether this processor has it, and the system lets the process use it
const char *tl_isa_name(int); // for messages
tl_fn tl_lookup(int isa, const tl_ins *);
// Fills in the functions of a kernel's instructions. Returns how many of them do not exist.
int tl_kern_link(tl_kern *, int isa);

// Where a run begins or has stopped: a step, and the number of its finished outer tiles. Steps from begun on have
// written nothing.
typedef struct { int64_t step, tile, begun; } tl_place;

enum { TLK_UNFUSED = -1, TLK_STOPPED = -2 };
// Runs a program from *at on; stop and patience are those of tl_watch. Returns 0; or the bytes that could not be
// allocated; or TLK_UNFUSED where a fusion group without buffers cannot run tile by tile; or TLK_STOPPED, and *at is
// where the next run begins.
int64_t tl_run(tl_prog *, tl_pool *, int isa, const int64_t *offsets, const uint64_t *scalars, tl_fault *,
	int64_t *times, // NULL, or room for the time at which each step begins and the last ends, by tl_nanoseconds
	int32_t *stop, int64_t patience, tl_place *at);
int64_t tl_nanoseconds(void); // of a monotonic clock
// A map of one dim, which is applied to pieces of its elements. tl_map_enter binds it to buffers and parameters; mem is
// tl_map_bytes of the worker's memory, aligned to 64 bytes. tl_map_run computes n elements from element at on.
enum { TLK_MAP_LANES = 512 }; // lanes of one tile: the registers stay in L1 beside the tiles of a product
int64_t tl_map_bytes(const tl_kern *);
void tl_map_enter(tl_ctx *, const tl_kern *, char **buf, const int64_t *par, char *mem);
void tl_map_run(tl_ctx *, int64_t at, int64_t n);
// Whether a map is one function of machine code on elements where they lie. tl_map_at then computes n elements, the
// first of which, in buffer b, is at address at[b].
int tl_map_direct(const tl_kern *);
void tl_map_at(tl_ctx *, char *const *at, int64_t n);
// Runs a kernel from outer tile *tile on; *tile becomes the number of finished tiles. Returns as tl_run.
int64_t tl_run_kern(tl_step *, tl_pool *, tl_fault *, int64_t *tile);
// Runs the iterations of a loop with a resident form from *at on; *at becomes the number of finished ones.
void tl_run_resident(tl_step *, tl_pool *, int64_t *at);
// Runs a fusion group from tile *tile on; *tile becomes the tile at which it stopped, or -1. times is NULL, or room for
// the time at which each map begins: the group's time is divided in proportion to the workers' time. Returns as tl_run.
int64_t tl_run_group(tl_step *, tl_pool *, int64_t *times, int64_t *tile);
int64_t tl_run_gemm(const tl_gemm *, tl_pool *, int isa, char **buf, const int64_t *par);
// Packs a B of floats into panels: a tile's columns, one row after the other. With to NULL it only returns the bytes.
int64_t tl_gemm_pack(int isa, int type, int64_t K, int64_t N, int64_t bk, int64_t bn, const char *b, char *to);
// Whether a product of one row reads a packed B: B is wide, and C is contiguous.
int tl_gemm_row(const tl_gemm *, int isa, const int64_t *par);
// Whether a product is better computed as its transpose, which reads A from such a pack of A'.
int tl_gemm_turns(const tl_gemm *, int isa, const int64_t *par);
int64_t tl_run_attention(const tl_attention *, tl_pool *, int isa, char **buf, const int64_t *par);
int64_t tl_run_factor(const tl_factor *, tl_pool *, int isa, char **buf, const int64_t *par, tl_fault *);
// A dense product of floats: C = A B, or C += A B with add. Rows of C are contiguous, cm apart.
typedef struct {
	int32_t type, add;
	int64_t M, N, K, am, ak, bk, bn, cm;
	const void *a, *b;
	void *c;
} tl_dense;

// With parallel the pool shares the product, else the worker works alone. Returns as tl_run.
int64_t tl_gemm_dense(tl_pool *, int isa, int worker, int parallel, const tl_dense *);
int64_t tl_run_sort(const tl_sort *, tl_pool *, int isa, char **buf, const int64_t *par);
int64_t tl_run_fft(const tl_fft *, tl_pool *, int isa, char **buf, const int64_t *par);
int tl_fft_lanes(int isa, int type); // of a vector
int64_t tl_run_quantized(const tl_quantized *, tl_pool *, int isa, char **buf, const int64_t *par);
// The run of a transform: lanes transforms along one dim, for each index of the other, in blocks of vectors. alone: one
// row at a time, whose steps the threads share.
typedef struct { int64_t step, lane, other; } tl_fft_strides; // in numbers
typedef struct {
	const tl_fft *f;
	tl_pool *pool;
	const void *in;
	void *out;
	tl_fft_strides x, y;
	int64_t lanes, blocks;
	int alone;
	volatile int64_t oom;
} tl_fft_run;

float tl_widen_f16(uint16_t);
float tl_widen_bf16(uint16_t);
uint16_t tl_narrow_f16(float);
uint16_t tl_narrow_bf16(float);

// Copies machine code to memory that is executable and never writable at the same time. NULL where the system forbids
// it.
void *tl_code_map(const void *code, int64_t bytes);
void tl_code_unmap(void *, int64_t bytes);

void *tl_alloc(int64_t bytes);
void tl_cpu_free(void *);
void tl_return_unused(void); // gives the system freed memory that the allocator keeps

// c[rows][TLK_PANEL] of rows of int8, xm bytes apart, and a panel of int8 weights of 4 words terms, a multiple of
// TLK_TERMS. sums has the sum of each row; rows is at most TLK_INT8_ROWS. Results are exact.
enum { TLK_INT8_ROWS = 32 };
typedef void tl_int8_panel(int rows, int64_t words, const int8_t *x, int64_t xm, const int32_t *sums, const uint32_t *w,
	int32_t *c);

// What each instruction set provides.
typedef struct {
	const tl_fn (*fn)[TLK_TYPES][TLK_TYPES];
	// C[mr][nr] += A B over kc terms, or C = A B if first is set; strides are in elements. Tiles are at most mr x nr;
	// or along x nr if rows of A are read in place and B is packed.
	int mr32, nr32, mr64, nr64, along;
	int64_t near; // most bytes of an A that is read in place for each panel of B: half of the least L2
	void (*gemm32)(int mr, int64_t kc, const float *a, int64_t am, int64_t ak, const float *b, int64_t bk, float *c,
		int64_t cm, int first);
	void (*gemm64)(int mr, int64_t kc, const double *a, int64_t am, int64_t ak, const double *b, int64_t bk, double *c,
		int64_t cm, int first);
	// The same, from rows of B in place, which it packs as a panel meanwhile; or NULL.
	void (*keep32)(int mr, int64_t kc, const float *a, int64_t am, int64_t ak, const float *b, int64_t bk,
		float *panel, float *c, int64_t cm, int first);
	void (*keep64)(int mr, int64_t kc, const double *a, int64_t am, int64_t ak, const double *b, int64_t bk,
		double *panel, double *c, int64_t cm, int first);
	void (*packb32)(const float *b, int64_t bk, int64_t bn, int64_t kc, int64_t n, float *dst);
	void (*packb64)(const double *b, int64_t bk, int64_t bn, int64_t kc, int64_t n, double *dst);
	// gemmrows: C[mr][nr] = A B with row k of B at b + row[k]. putruns: copies runs of columns from a tile to c.
	void (*gemmrows32)(int mr, int64_t kc, const float *a, int64_t am, int64_t ak, const float *b, const int64_t *row,
		float *c, int64_t cm);
	void (*gemmrows64)(int mr, int64_t kc, const double *a, int64_t am, int64_t ak, const double *b, const int64_t *row,
		double *c, int64_t cm);
	// window: c[i * n + j] = sum over k of a[k * ak] b[start[i] + row[k] + j * step] for lines of n columns, step 1 or 2;
	// up to bend may be read. start and row ascend.
	void (*window32)(int64_t lines, const int64_t *start, int64_t n, int64_t kc, const float *a, int64_t ak,
		const float *b, const float *bend, const int64_t *row, int64_t step, float *c);
	void (*window64)(int64_t lines, const int64_t *start, int64_t n, int64_t kc, const double *a, int64_t ak,
		const double *b, const double *bend, const int64_t *row, int64_t step, double *c);
	void (*plane32)(const tl_plane *p, const float *a, const float *from, float *copy, float *c);
	void (*plane64)(const tl_plane *p, const double *a, const double *from, double *copy, double *c);
	tl_spots32 *spots32; tl_spots64 *spots64; // or NULL
	void (*putruns32)(const float *tile, int64_t rows, const tl_piece *run, int64_t runs, float *c, int64_t cm);
	void (*putruns64)(const double *tile, int64_t rows, const tl_piece *run, int64_t runs, double *c, int64_t cm);
	// Pack panels of a B with several dims of K or N. packruns: row k begins at b + row[k], and its columns are runs of
	// elements step apart; up to bend may be read, and up to dend written. packtrans: column j begins at b + col[j],
	// and its rows are contiguous.
	void (*packruns32)(const float *b, const float *bend, const int64_t *row, int64_t kc, const tl_piece *run,
		int64_t nrun, int64_t step, float *dst, const float *dend);
	void (*packruns64)(const double *b, const double *bend, const int64_t *row, int64_t kc, const tl_piece *run,
		int64_t nrun, int64_t step, double *dst, const double *dend);
	void (*packtrans32)(const float *b, const int64_t *col, int64_t kc, int64_t n, float *dst);
	void (*packtrans64)(const double *b, const int64_t *col, int64_t kc, int64_t n, double *dst);
	// packwindows: packruns for rows of a tile. turnout: c[j * cm + i] = t[i * nr + j], i < n, j < rows.
	void (*packwindows32)(const float *b, const float *bend, const int64_t *row, int64_t kc, const tl_piece *run,
		int64_t nrun, int64_t step, float *dst, const float *dend);
	void (*packwindows64)(const double *b, const double *bend, const int64_t *row, int64_t kc, const tl_piece *run,
		int64_t nrun, int64_t step, double *dst, const double *dend);
	void (*turnout32)(const float *t, int64_t n, int64_t rows, float *c, int64_t cm);
	void (*turnout64)(const double *t, int64_t n, int64_t rows, double *c, int64_t cm);
	void (*packa32)(const float *a, int64_t am, int64_t ak, int64_t kc, int64_t rows, float *dst);
	void (*packa64)(const double *a, int64_t am, int64_t ak, int64_t kc, int64_t rows, double *dst);
	void (*bias32)(float *c, const float *bias, int64_t biasn, int64_t n);
	void (*bias64)(double *c, const double *bias, int64_t biasn, int64_t n);
	// c = a B of a row a, from B in panels. depth terms are summed at a time.
	void (*row32)(int64_t n, int64_t k, int64_t depth, const float *a, int64_t ak, const float *b, float *c);
	void (*row64)(int64_t n, int64_t k, int64_t depth, const double *a, int64_t ak, const double *b, double *c);
	void (*dot32)(int64_t n, int64_t k, const float *a, int64_t ak, const float *b, int64_t bn, float *c, int64_t cn);
	void (*dot64)(int64_t n, int64_t k, const double *a, int64_t ak, const double *b, int64_t bn, double *c, int64_t cn);
	// axpy: c = a B of a row a. addrows: c += a B. rotate: x, y = c x + s y, c y - s x.
	void (*rotate32)(int64_t n, float *x, float *y, float c, float s);
	void (*rotate64)(int64_t n, double *x, double *y, double c, double s);
	void (*addrows32)(int64_t n, int64_t k, const float *a, int64_t ak, const float *b, int64_t bk, float *c);
	void (*addrows64)(int64_t n, int64_t k, const double *a, int64_t ak, const double *b, int64_t bk, double *c);
	void (*axpy32)(int64_t n, int64_t k, const float *a, int64_t ak, const float *b, int64_t bk, float *c);
	void (*axpy64)(int64_t n, int64_t k, const double *a, int64_t ak, const double *b, int64_t bk, double *c);
	// Operands of products of 16-bit floats, in units of 32 bits (gemm_half.h). half_across: d[u * pitch + j] of elements
	// p[k * s + j], j < n. half_along: d[i * pitch + u] of elements p[i * s + k], i < n. half_store: c[j * cn] is
	// sum[j] + bias[j], rounded; bias may be NULL, and is added to sum. turn: d[r * n + l] = p[l * s + r],
	// r < rows, l < n.
	void (*half_across)(int type, int depth, const uint16_t *p, int64_t s, int64_t k, int64_t n, uint32_t *d,
		int64_t pitch);
	void (*half_along)(int type, int depth, const uint16_t *p, int64_t s, int64_t n, int64_t k, uint32_t *d,
		int64_t pitch);
	// Products of a row of floats a: half_dots: c[j] = sum over k of a[k] b[j * bn + k]. half_rows: c[j] += sum over k of
	// a[k] b[k * bk + j]. j < n.
	void (*half_dots)(int type, int64_t n, int64_t k, const float *a, const uint16_t *b, int64_t bn, float *c);
	void (*half_rows)(int type, int64_t n, int64_t k, const float *a, const uint16_t *b, int64_t bk, float *c);
	void (*half_store)(int type, float *sum, const float *bias, int64_t n, uint16_t *c, int64_t cn);
	void (*turn)(uint32_t *d, const uint32_t *p, int64_t rows, int64_t n, int64_t s);
	// Products with panels of quantized weights w. panel: c[rows][TLK_PANEL] of rows of x, xm elements apart, and the
	// sums of their groups, sm apart, which only weights with offsets need; rows is at most panel_rows. Or one row and
	// row_panels panels: c[row_panels][TLK_PANEL].
	int panel_rows, row_panels;
	void (*panel)(const tl_quantized *, int rows, int panels, int64_t K, const float *x, int64_t xm,
		const float *sums, int64_t sm, const uint32_t *w, const void *scale, const uint16_t *offset, float *c);
	tl_int8_panel *int8_panel;
	tl_job fft_columns32, fft_columns64, fft_rows32, fft_rows64; // of a tl_fft_run
	void (*attention_softmax)(int64_t rows, int64_t n, float *s, int64_t ld, float *top, float *sum, float *out,
		int64_t w);
	// Random words: count Philox blocks of a stream, rounded up to a multiple of TLK_PHILOX.
	void (*draws)(uint64_t first, uint64_t draw_offset, uint64_t seed, int64_t count, uint64_t *);
	void (*attention_weights)(int64_t rows, int64_t n, float *s, float *dp, int64_t ld, const float *lse,
		const float *delta, int columns);
} tl_isa_table;

// A kernel for pairs of bfloat16: sums[rows][nr] += A B over units of two terms, or = A B if first is set. rows is at
// most mr, units a multiple of step. shape is 0 for a task's first call, and leave gets it after the last.
typedef struct {
	int mr, nr, step;
	void (*gemm)(int rows, int64_t units, const uint32_t *a, int64_t am, const uint32_t *b, float *sums, int first,
		int *shape);
	void (*leave)(int shape);
} tl_half_kernel;

// Returns the kernel of an instruction set, or NULL: bfloat16 is then widened, as float16 is.
const tl_half_kernel *tl_pair_kernel(int isa);

extern const tl_isa_table tl_table_base, tl_table_avx2, tl_table_avx512;
const tl_isa_table *tl_isa_tables(int isa);
extern const tl_half_kernel tl_pairs_avx512, tl_pairs_amx;
// tl_int8_panel of an instruction set.
void tl_int8_avx2_vnni(int, int64_t words, const int8_t *, int64_t, const int32_t *, const uint32_t *, int32_t *);
void tl_int8_avx512_vnni(int, int64_t words, const int8_t *, int64_t, const int32_t *, const uint32_t *, int32_t *);
void tl_int8_amx(int, int64_t words, const int8_t *, int64_t, const int32_t *, const uint32_t *, int32_t *);
void tl_int8_neon(int, int64_t words, const int8_t *, int64_t, const int32_t *, const uint32_t *, int32_t *);
tl_int8_panel *tl_int8_kernel(int isa);

#endif
