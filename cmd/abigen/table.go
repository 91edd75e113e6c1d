package main

import "github.com/torchlette/torchlette/ir"

// abiVersion changes with every incompatible change of a struct or an export.
const abiVersion = 3

// maxRank is the length of engine.Out.Shape.
const maxRank = 16

// queuedTensors is engine.MaxQueuedTensors.
const queuedTensors = 4

// codeNames names ir.Code in C.
var codeNames = [ir.NumCodes]string{
	ir.OK: "OK", ir.ErrRuntime: "RUNTIME", ir.ErrType: "TYPE", ir.ErrValue: "VALUE", ir.ErrIndex: "INDEX",
	ir.ErrNotImplemented: "NOT_IMPLEMENTED", ir.ErrOutOfMemory: "OUT_OF_MEMORY", ir.ErrValueLost: "VALUE_LOST",
	ir.ErrPoisoned: "POISONED", ir.ErrBusy: "BUSY", ir.ErrDisposed: "DISPOSED", ir.ErrHandle: "HANDLE",
	ir.ErrHostCoercion: "HOST_COERCION", ir.ErrSavedModified: "SAVED_MODIFIED", ir.ErrGraphFreed: "GRAPH_FREED",
	ir.ErrNonReentrant: "NON_REENTRANT", ir.ErrImpureRegion: "IMPURE_REGION", ir.ErrDeviceLost: "DEVICE_LOST",
	ir.ErrLinAlg: "LINALG", ir.ErrInterrupted: "INTERRUPTED", ir.ErrInternal: "INTERNAL",
	ir.ErrKernelExecution: "KERNEL_EXECUTION", ir.ErrOverflow: "OVERFLOW",
}

// export is one function of the ABI. inC marks the functions written in shim.c, which never enter Go.
type export struct {
	name, ret, params, doc string
	inC                    bool
}

var exports = []export{
	{name: "tl_abi_version", ret: "uint32_t", params: "void", inC: true,
		doc: "TL_ABI_VERSION of the library. Check it first."},
	{name: "tl_ops_hash", ret: "uint32_t", params: "void",
		doc: "TL_OPERATORS_HASH of the library: operator numbers are valid only if it equals the header's."},
	{name: "tl_last_error", ret: "const tl_error *", params: "void", inC: true,
		doc: "The calling thread's last failure; valid until its next failing call."},
	{name: "tl_op_find", ret: "int32_t", params: "const char *name, uint16_t *op",
		doc: "The number of an operator by its full name, such as \"matmul\" or \"sum.dim_IntList\"."},
	{name: "tl_op", ret: "int32_t", params: "const tl_call *call, tl_out *out, int32_t max, int32_t *n",
		doc: "Records one operator. Writes up to max results and their number to n."},
	{name: "tl_reserve", ret: "int32_t", params: "uint64_t *handles, int32_t n",
		doc: "Handles for the results of deferred calls."},
	{name: "tl_record", ret: "int32_t",
		params: "const tl_deferred *calls, int32_t n, const uint64_t *drop, int32_t n_drop",
		doc: "Records deferred calls, then releases the handles in drop. A call that fails leaves its handle unusable; its " +
			"error is raised at the next wait."},
	{name: "tl_from_data", ret: "int32_t",
		params: "uint8_t dtype, uint8_t device, int32_t rank, const int64_t *shape, const void *data, size_t bytes, " +
			"uint32_t flags, uint32_t source_loc, tl_out *out",
		doc: "A tensor with a copy of dense row-major data. flags: TL_REQUIRES_GRAD."},
	{name: "tl_force", ret: "int32_t", params: "uint64_t handle, int64_t slice_ns",
		doc: "Computes a value. TL_PENDING after slice_ns: call again."},
	{name: "tl_realize", ret: "int32_t", params: "const uint64_t *handles, int32_t n, int64_t slice_ns",
		doc: "Computes values and waits for the devices. TL_PENDING after slice_ns: call again."},
	{name: "tl_read", ret: "int32_t", params: "uint64_t handle, void *dst, size_t bytes",
		doc: "Copies a value to dst, dense row-major."},
	{name: "tl_read_within", ret: "int32_t", params: "uint64_t handle, void *dst, size_t bytes, int64_t slice_ns",
		doc: "tl_read in time slices: TL_PENDING says to call again. A value that is soon computed takes one call."},
	{name: "tl_interrupt", ret: "int32_t", params: "int64_t patience_ns",
		doc: "Ends the wait that TL_PENDING announced to the calling thread: the work stops, what it has not computed is " +
			"computed by the next wait. It returns when the work has stopped, after patience_ns at the latest."},
	{name: "tl_export_buffer", ret: "int32_t", params: "uint64_t handle, void **data, uint64_t *export_id",
		doc: "The memory of a tensor on the CPU, dense row-major, computed when needed; it stays as it is until " +
			"tl_release_export."},
	{name: "tl_release_export", ret: "int32_t", params: "uint64_t export_id",
		doc: "Ends a export_id of tl_export_buffer. Unknown ones are ignored."},
	{name: "tl_numbers", ret: "int32_t",
		params: "const uint64_t *handles, double *values, int32_t n, int32_t mode, int32_t *done",
		doc: "Reads one-element tensors (mode 0), writes them (1), or adds values and reads the sums (2); done: see " +
			"engine.Numbers."},
	{name: "tl_mark_step", ret: "int32_t", params: "int64_t slice_ns",
		doc: "Runs everything pending, waits, and starts a new epoch. TL_PENDING after slice_ns: call again."},
	{name: "tl_flush", ret: "int32_t", params: "void",
		doc: "Submits everything pending without waiting."},
	{name: "tl_flush_within", ret: "int32_t", params: "int32_t due, int64_t slice_ns",
		doc: "tl_flush in time slices: TL_PENDING after slice_ns, call again. due: runs what tl_engine_state.due announces " +
			"instead."},
	{name: "tl_idle", ret: "int32_t", params: "int64_t slice_ns",
		doc: "Waits until no work is under way that TL_PENDING announced to any thread. TL_PENDING after slice_ns: call " +
			"again."},
	{name: "tl_watch_engine", ret: "tl_engine_state *", params: "void", inC: true,
		doc: "Words that the engine keeps up to date. The caller sets defer to be told by due of pending work that has " +
			"grown large, which otherwise runs in the call that records."},
	{name: "tl_meta_of", ret: "int32_t", params: "uint64_t handle, tl_meta *meta",
		doc: "What is known of a tensor without computing it."},
	{name: "tl_release", ret: "int32_t", params: "const uint64_t *handles, int32_t n",
		doc: "Gives handles back. Unknown handles are ignored."},
	{name: "tl_dispose", ret: "int32_t", params: "uint64_t handle",
		doc: "Frees a tensor's value now; later use of the handle fails with TL_DISPOSED."},
	{name: "tl_tidy", ret: "int32_t", params: "int32_t begin, const uint64_t *returned, int32_t n",
		doc: "Opens (begin 1) or closes (0) a scope; closing disposes of what was made in it and is neither returned nor " +
			"kept."},
	{name: "tl_keep", ret: "int32_t", params: "uint64_t handle",
		doc: "Exempts a tensor from the scopes around it."},
	{name: "tl_requires_grad", ret: "int32_t", params: "uint64_t handle, int32_t value",
		doc: "Sets requires_grad (0, 1); value 2 retains the gradient of a non-leaf."},
	{name: "tl_grad", ret: "int32_t", params: "uint64_t handle, tl_out *out, int32_t *has",
		doc: "The gradient slot of a tensor."},
	{name: "tl_set_grad", ret: "int32_t", params: "uint64_t handle, uint64_t grad",
		doc: "Binds the gradient slot; grad 0 empties it."},
	{name: "tl_set_data", ret: "int32_t", params: "uint64_t handle, uint64_t source",
		doc: "Lets handle denote the value of source."},
	{name: "tl_backward", ret: "int32_t",
		params: "const uint64_t *roots, const uint64_t *grads, int32_t n, const uint64_t *inputs, int32_t n_inputs, " +
			"uint32_t flags, uint64_t *session",
		doc: "Starts a backward walk: grads[i] may be 0. flags: TL_RETAIN_GRAPH and so on. Continue with tl_backward_next."},
	{name: "tl_backward_next", ret: "int32_t", params: "uint64_t session, uint64_t replacement, tl_event *event",
		doc: "Walks to the next hook (event kind 1; pass its result or 0 as replacement in the next call) or to the end " +
			"(kind 0), which ends the session unless inputs were given."},
	{name: "tl_backward_results", ret: "int32_t", params: "uint64_t session, tl_out *outs, uint8_t *has, int32_t n",
		doc: "The gradients of the inputs given to tl_backward; ends the session."},
	{name: "tl_hook", ret: "int32_t", params: "uint64_t handle, int32_t post, uint64_t *hook",
		doc: "Adds a hook to a tensor (handle not 0) or removes hook (handle 0). post: it runs after the leaf has " +
			"accumulated."},
	{name: "tl_owns_hook", ret: "int32_t", params: "uint64_t handle, uint64_t hook, int32_t *owns",
		doc: "Whether nothing but the handle keeps the step that a hook is on, so that the hook goes with the handle."},
	{name: "tl_function", ret: "int32_t", params: "uint64_t handle, int32_t leaf, tl_function_info *f",
		doc: "Holds and describes what made a tensor: id 0 for none. leaf: of a leaf, what accumulates its gradient."},
	{name: "tl_function_next", ret: "int32_t", params: "uint64_t id, tl_function_info *next, int32_t max, int32_t *n",
		doc: "Holds and describes the functions whose results function id took. n greater than max: nothing is held, call " +
			"again."},
	{name: "tl_function_release", ret: "int32_t", params: "uint64_t id",
		doc: "Gives one hold of a function back."},
	{name: "tl_next_pack_hook", ret: "int32_t", params: "const uint64_t *handles, int32_t n, tl_out *out, int32_t " +
		"*operand, uint64_t *hook",
		doc: "The next saved value that waits for its hook under TL_MODE_SAVED_TENSOR_HOOKS: tensor number operand of " +
			"those given, or, with operand -1, out. hook names what is to give it back, 0 at the end. n below 0: those that " +
			"wait stay where they are."},
	{name: "tl_saved", ret: "int32_t", params: "uint64_t id, int32_t i, int32_t action, tl_saved_info *info, tl_out *out",
		doc: "Saved value i of a function. action: TL_SAVED_DESCRIBE and so on."},
	{name: "tl_attach_history", ret: "int32_t", params: "uint64_t handle, uint64_t id, int32_t i, tl_out *out",
		doc: "The values of handle with the history of saved value i of a function or, with i below 0, of its result -1-i."},
	{name: "tl_leaves", ret: "int32_t", params: "const uint64_t *handles, int32_t n, tl_out *leaves, int32_t max, " +
		"int32_t *count",
		doc: "The leaves that the history of n tensors ends in, as new tensors. count greater than max: none is made, call " +
			"again."},
	{name: "tl_leads_outside", ret: "int32_t",
		params: "const uint64_t *handles, int32_t n, uint8_t *outside",
		doc:    "Whether the history of each of n tensors ends in a leaf that is not closed."},
	{name: "tl_close_leaves", ret: "int32_t", params: "const uint64_t *handles, int32_t n",
		doc: "Closes leaves: they can be differentiated by, but do not count for tl_leads_outside."},
	{name: "tl_fence", ret: "int32_t", params: "int32_t kind, const uint64_t *writable, int32_t n, int32_t *recomputing",
		doc: "Begins a fence (TL_FENCE_*) in the calling thread: until its end, writing to a tensor that is older, and not " +
			"among writable, fails. recomputing: whether a TL_FENCE_RECOMPUTATION was there before the call."},
	{name: "tl_function_scope", ret: "int32_t", params: "const char *name",
		doc: "What is recorded from here (name given) to the matching call with NULL is one function of that name."},
	{name: "tl_dead_hooks", ret: "int32_t", params: "uint64_t *hooks, int32_t max, int32_t *n",
		doc: "Numbers of hooks that can no longer be called, for their steps are gone; each is told once."},
	{name: "tl_site", ret: "uint32_t", params: "const char *file, const char *function, int32_t line",
		doc: "Numbers a call source_loc."},
	{name: "tl_site_string", ret: "int32_t", params: "uint32_t source_loc, char *dst, size_t capacity",
		doc: "The text of a call source_loc, cut to capacity with its final zero."},
	{name: "tl_set_mode", ret: "int32_t", params: "int32_t mode, int64_t value, int64_t *old",
		doc: "Sets a mode (TL_MODE_*) and gives its old value. value TL_MODE_QUERY changes nothing."},
	{name: "tl_thread", ret: "int32_t", params: "uint64_t id, int32_t ended",
		doc: "The calls that follow are those of thread id: modes, labelled functions and scopes are a thread's own. " +
			"ended: id makes no more calls, thread 0 does. All calls are those of thread 0 until one is named."},
	{name: "tl_rng", ret: "int32_t", params: "int32_t action, uint64_t *state",
		doc: "TL_RNG_SEED takes state[0]; TL_RNG_GET and TL_RNG_SET move four words."},
	{name: "tl_info", ret: "int32_t", params: "const char *kind, uint64_t handle, char **json, size_t *bytes",
		doc: "A JSON text: \"devices\", \"memory_stats\", \"explain\", \"explain_program\", \"stats\", \"leaks\", \"ops\". " +
			"Free it with tl_free_text."},
	{name: "tl_free_text", ret: "void", params: "void *p", inC: true,
		doc: "Frees what tl_info returned."},
	{name: "tl_set_option", ret: "int32_t", params: "const char *key, const char *value",
		doc: "Sets an engine option."},
	{name: "tl_reset", ret: "int32_t", params: "void",
		doc: "Starts the engine anew after TL_POISONED."},
	{name: "tl_after_fork", ret: "void", params: "void", inC: true,
		doc: "To be called in a forked child: every later call there fails, for the engine's threads did not survive."},
}

const headerTop = `#ifndef TORCHLETTE_H
#define TORCHLETTE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TL_API
#if defined(_WIN32)
#define TL_API __declspec(dllimport)
#else
#define TL_API __attribute__((visibility("default")))
#endif
#endif

`

const headerTypes = `
/* Devices: 0 is the CPU, n + 1 is "wgpu:n". */
enum { TL_CPU = 0 };

/* Kinds of tl_scalar. */
enum { TL_NONE = 0, TL_SCALAR_BOOL = 2, TL_SCALAR_INT = 3, TL_SCALAR_FLOAT = 4 };

/* An entry of tl_call.in that stands for the next scalar. */
#define TL_SCALAR_OPERAND ((uint64_t)1 << 63)

/* tl_call.mode */
enum { TL_FUNCTIONAL = 0, TL_IN_PLACE = 1, TL_INTO_OUT = 2 };

/* tl_out.flags */
enum { TL_REQUIRES_GRAD = 1, TL_LEAF = 2, TL_SAME_HANDLE = 4 };

/* tl_meta.flags: 1 and 2 as above */
enum { TL_RETAINS_GRAD = 4, TL_VIEW = 8, TL_CONTIGUOUS = 16 };

/* flags of tl_backward */
enum {
    TL_RETAIN_GRAPH = 1,
    TL_CREATE_GRAPH = 2,
    TL_ACCUMULATE = 4,
    TL_ALLOW_UNUSED = 8,
    TL_INSPECT = 16,
    TL_NO_LEAF_HOOKS = 32
};

/* tl_event.kind */
enum { TL_DONE = 0, TL_RUN_HOOK = 1, TL_RUN_POST_HOOK = 2, TL_INSPECT_GRAD = 3, TL_UNPACK = 4, TL_PACK = 5 };

/* modes of tl_set_mode */
enum {
    TL_MODE_GRAD = 0,
    TL_MODE_DEFAULT_DTYPE = 1,
    TL_MODE_DEFAULT_DEVICE = 2,
    TL_MODE_INFERENCE = 3,
    TL_MODE_BUSY_WAIT = 4,
    TL_MODE_DETERMINISTIC = 5,
    TL_MODE_AUTOCAST_CPU = 6, /* a dtype, or 0 */
    TL_MODE_AUTOCAST_GPU = 7,
    TL_MODE_ALLOW_MUTATION = 8, /* of what steps save; no result depends on it */
    TL_MODE_SAVED_TENSOR_HOOKS = 9, /* what steps save waits for tl_next_pack_hook */
    TL_MODE_REFUSE_DRAWS = 10 /* a draw of random numbers is an error; deferred calls must not be queued */
};
#define TL_MODE_QUERY ((int64_t)-1)

/* kinds of tl_fence */
enum {
    TL_FENCE_END = 0, /* ends the innermost */
    TL_FENCE_QUERY = 1, /* only asks */
    TL_FENCE_NONE = 2, /* lifts those around: for what a layer keeps beside its result */
    TL_FENCE_TRANSFORM = 3, /* writing raises TL_RUNTIME */
    TL_FENCE_RECOMPUTATION = 4 /* writing raises TL_IMPURE_REGION */
};

enum { TL_RNG_SEED = 0, TL_RNG_GET = 1, TL_RNG_SET = 2 };

/* A Python number: bits of a double, or an int64. */
typedef struct {
    uint8_t kind;
    uint64_t bits;
} tl_scalar;

/* A call that tl_out.defer_id promised: the same operator, integers and numbers on tensors of the same layouts,
 * dtypes, devices and flags, under the same modes. Its result is what the defer_id came with, but for the handle:
 * so it need not be recorded at once. */
typedef struct {
    uint32_t defer_id;
    uint32_t source_loc;
    uint64_t handle; /* of tl_reserve: the result's */
    uint64_t in[TL_DEFERRED_TENSORS]; /* the tensors among the operands */
} tl_deferred;

/* One call of an operator. The flat encoding of its arguments follows its
 * signature: see engine/op/sig.go. Nothing is kept after the call returns. */
typedef struct {
    uint16_t op;
    uint8_t mode;
    uint32_t source_loc;
    const uint64_t *in;
    const int64_t *ints;
    const tl_scalar *scalars;
    const uint64_t *outs; /* mode TL_INTO_OUT: the tensors that take the results */
    const uint64_t *drop; /* handles to release first */
    const tl_deferred *queued; /* deferred calls made before, as of tl_record; even before drop */
    int32_t n_in, n_ints, n_scalars, n_outs, n_drop, n_queued;
} tl_call;

/* A new tensor. Only rank entries of shape are written. */
typedef struct {
    uint64_t handle;
    uint8_t dtype, device, rank, flags;
    uint32_t layout; /* sizes and strides, as a number; 0 stands for none */
    int64_t numel;
    uint32_t defer_id; /* not 0: tl_deferred can repeat the call. Under a newer upper half, forget the older */
    uint32_t reserved;
    int64_t shape[TL_MAX_RANK];
} tl_out;

typedef struct {
    uint8_t dtype, device, rank, on_host;
    uint32_t flags;
    uint32_t source_loc;
    uint64_t base; /* alias identity */
    uint64_t commits;
    int64_t offset, storage; /* in elements: where the view begins, and how many the base has */
    int64_t shape[TL_MAX_RANK], stride[TL_MAX_RANK];
    char grad_fn[64];
} tl_meta;

/* What a walk stops for: a hook to call with grad, a hook to call after a leaf has accumulated, with
 * TL_INSPECT gradient number hook of the function name that the line source_loc recorded, a hook to
 * call for a saved value, or saved values that wait for tl_next_pack_hook. */
typedef struct {
    uint32_t kind;
    uint32_t source_loc;
    uint64_t hook;
    tl_out grad;
    char name[64];
} tl_event;

/* A function of the graph that autograd shows. */
typedef struct {
    uint64_t id;
    char name[64];
    uint32_t output; /* which of its results */
    uint32_t source_loc;
} tl_function_info;

/* tl_saved_info.state */
enum { TL_SAVED_END = 0, TL_NOT_SAVED = 1, TL_SAVED_HELD = 2, TL_SAVED_PACKED = 3, TL_SAVED_FREED = 4 };

/* actions of tl_saved: out is made, or the value waits for tl_next_pack_hook; of values that are held */
enum { TL_SAVED_DESCRIBE = 0, TL_SAVED_READ = 1, TL_SAVED_PACK = 2 };

/* A saved value of a function. */
typedef struct {
    uint32_t state;
    uint64_t hook; /* that gives it when it is packed */
    char name[32];
} tl_saved_info;

/* See tl_watch_engine; to be read and written atomically. */
typedef struct {
    int32_t defer; /* set by the caller: tl_flush_within is called, with due 1, when due is set */
    int32_t due;   /* pending work has grown large */
    int32_t busy;  /* work is under way that TL_PENDING announced */
} tl_engine_state;

typedef struct {
    int32_t code;
    uint32_t source_loc; /* where the failing operator was recorded; 0 when unknown */
    const char *message;
} tl_error;
`
