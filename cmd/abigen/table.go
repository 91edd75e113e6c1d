package main

import "github.com/torchlette/torchlette/ir"

// abiVersion changes with every incompatible change of a struct or an export.
const abiVersion = 4

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
	ir.ErrHostRead: "HOST_READ", ir.ErrTraceEscape: "TRACE_ESCAPE",
	ir.ErrImpure: "IMPURE",
}

// export is one function of the ABI. inC marks the functions written in shim.c, which never enter Go.
type export struct {
	name, ret, params, doc string
	inC                    bool
}

var exports = []export{
	{name: "tl_abi_version", ret: "uint32_t", params: "void", inC: true,
		doc: "The library's TL_ABI_VERSION. Check it first."},
	{name: "tl_ops_hash", ret: "uint32_t", params: "void",
		doc: "The library's TL_OPERATORS_HASH. The numbers TL_OP_* are valid only if it equals the header's."},
	{name: "tl_last_error", ret: "const tl_error *", params: "void", inC: true,
		doc: "The last failure of the calling thread; valid until its next failing call."},
	{name: "tl_op_find", ret: "int32_t", params: "const char *name, uint16_t *op",
		doc: "The number of an operator by its full name, such as \"matmul\" or \"sum.dim_IntList\"."},
	{name: "tl_op", ret: "int32_t", params: "const tl_call *call, tl_out *out, int32_t max, int32_t *n",
		doc: "Records one operator. Writes at most max results to out, and their number to n."},
	{name: "tl_reserve", ret: "int32_t", params: "uint64_t *handles, int32_t n",
		doc: "Reserves n handles for the results of deferred calls."},
	{name: "tl_record", ret: "int32_t",
		params: "const tl_deferred *calls, int32_t n, const uint64_t *drop, int32_t n_drop",
		doc: "Records deferred calls, then releases the handles in drop. The handle of a call that fails is unusable; the " +
			"next wait raises the error."},
	{name: "tl_from_data", ret: "int32_t",
		params: "uint8_t dtype, uint8_t device, int32_t rank, const int64_t *shape, const void *data, size_t bytes, " +
			"uint32_t flags, uint32_t source_loc, tl_out *out",
		doc: "Makes a tensor with a copy of dense row-major data. flags: TL_REQUIRES_GRAD."},
	{name: "tl_force", ret: "int32_t", params: "uint64_t handle, int64_t slice_ns",
		doc: "Computes a value. TL_PENDING after slice_ns: call again."},
	{name: "tl_realize", ret: "int32_t", params: "const uint64_t *handles, int32_t n, int64_t slice_ns",
		doc: "Computes values, and waits for their devices. TL_PENDING after slice_ns: call again."},
	{name: "tl_read", ret: "int32_t", params: "uint64_t handle, void *dst, size_t bytes",
		doc: "Copies a value to dst, dense row-major."},
	{name: "tl_read_within", ret: "int32_t", params: "uint64_t handle, void *dst, size_t bytes, int64_t slice_ns",
		doc: "tl_read in time slices. TL_PENDING after slice_ns: call again. A value that is soon computed takes one call."},
	{name: "tl_copy_to_host", ret: "int32_t", params: "uint64_t handle, int64_t slice_ns",
		doc: "Submits all pending work and a copy of a value to the host, without waiting for them. A tl_read of the value " +
			"waits for this copy, and not for work submitted later. TL_PENDING after slice_ns: call again."},
	{name: "tl_interrupt", ret: "int32_t", params: "int64_t patience_ns",
		doc: "Stops the work for which the calling thread got TL_PENDING; the next wait computes the rest. It returns when " +
			"the work has stopped, or after patience_ns."},
	{name: "tl_export_buffer", ret: "int32_t", params: "uint64_t handle, int32_t pin, void **data, uint64_t *export_id",
		doc: "Gives the address of a tensor's first element on the CPU, computed if needed; the strides are those of " +
			"tl_meta. Until tl_release_export, writes to the memory and to the tensor are seen on both sides. pin 1: as long " +
			"as the tensor or an alias lives; export_id is then 0."},
	{name: "tl_from_memory", ret: "int32_t",
		params: "uint8_t dtype, int32_t rank, const int64_t *shape, const int64_t *stride, void *data, uint32_t flags, " +
			"uint64_t owner, uint32_t source_loc, tl_out *out, uint64_t *export_id",
		doc: "Makes a tensor on the CPU over memory of the caller. stride counts elements, none negative. Writes are seen " +
			"on both sides until tl_private, or as long as the tensor or an alias lives. The memory stays until tl_owners " +
			"returns owner, which is not 0. flags: TL_READ_ONLY, TL_PAGES."},
	{name: "tl_private", ret: "int32_t", params: "uint64_t export_id",
		doc: "Says that the caller uses memory of tl_from_memory no more. An unknown export_id is ignored."},
	{name: "tl_sole", ret: "int32_t", params: "uint64_t export_id, int32_t *sole",
		doc: "Whether the memory of an export has no other user: the tensor and its aliases are gone."},
	{name: "tl_owners", ret: "int32_t", params: "uint64_t *owners, int32_t n, int32_t *count",
		doc: "Takes up to n owners of memory that no tensor uses any more. tl_engine_state.due announces them."},
	{name: "tl_release_export", ret: "int32_t", params: "uint64_t export_id",
		doc: "Ends an export of tl_export_buffer. An unknown export_id is ignored."},
	{name: "tl_numbers", ret: "int32_t",
		params: "const uint64_t *handles, double *values, int32_t n, int32_t mode, int32_t *done",
		doc: "Reads one-element tensors (mode 0), writes them (1), or adds values and reads the sums (2), in order; 3 " +
			"reads also in a capture. It stops at a tensor that is not in host memory; done is the number of those before."},
	{name: "tl_writes", ret: "int32_t", params: "uint64_t *count",
		doc: "Gives how many writes to tensors have been recorded so far."},
	{name: "tl_mark_step", ret: "int32_t", params: "int64_t slice_ns",
		doc: "Runs all pending work, waits for it, and begins a new step. TL_PENDING after slice_ns: call again."},
	{name: "tl_flush", ret: "int32_t", params: "void",
		doc: "Submits all pending work without waiting."},
	{name: "tl_flush_within", ret: "int32_t", params: "int32_t due, int64_t slice_ns",
		doc: "tl_flush in time slices. TL_PENDING after slice_ns: call again. due 1: runs only what tl_engine_state.due " +
			"announces."},
	{name: "tl_idle", ret: "int32_t", params: "int64_t slice_ns",
		doc: "Waits until no thread has work under way for which it got TL_PENDING. TL_PENDING after slice_ns: call again."},
	{name: "tl_watch_engine", ret: "tl_engine_state *", params: "void", inC: true,
		doc: "Words that the engine keeps up to date. A caller that sets defer runs large pending work itself, when due " +
			"says so; else the call that records runs it."},
	{name: "tl_meta_of", ret: "int32_t", params: "uint64_t handle, tl_meta *meta",
		doc: "Describes a tensor without computing it."},
	{name: "tl_release", ret: "int32_t", params: "const uint64_t *handles, int32_t n",
		doc: "Releases handles. Unknown handles are ignored."},
	{name: "tl_dispose", ret: "int32_t", params: "uint64_t handle",
		doc: "Frees a tensor's value now; later use of the handle fails with TL_DISPOSED."},
	{name: "tl_tidy", ret: "int32_t", params: "int32_t begin, const uint64_t *returned, int32_t n",
		doc: "Opens (begin 1) or closes (0) a scope. Closing it disposes of all tensors that were made in it, except those " +
			"returned and those kept."},
	{name: "tl_keep", ret: "int32_t", params: "uint64_t handle",
		doc: "Keeps a tensor when the scopes around it close."},
	{name: "tl_requires_grad", ret: "int32_t", params: "uint64_t handle, int32_t value",
		doc: "Sets requires_grad (0, 1); value 2 retains the gradient of a non-leaf."},
	{name: "tl_grad", ret: "int32_t", params: "uint64_t handle, tl_out *out, int32_t *has",
		doc: "Reads the gradient slot of a tensor; has is 0 when it is empty."},
	{name: "tl_set_grad", ret: "int32_t", params: "uint64_t handle, uint64_t grad",
		doc: "Binds the gradient slot; grad 0 empties it."},
	{name: "tl_set_data", ret: "int32_t", params: "uint64_t handle, uint64_t source",
		doc: "Makes handle denote the value of source."},
	{name: "tl_backward", ret: "int32_t",
		params: "const uint64_t *roots, const uint64_t *grads, int32_t n, const uint64_t *inputs, int32_t n_inputs, " +
			"uint32_t flags, uint64_t *session",
		doc: "Begins a backward walk; grads[i] may be 0. flags: TL_RETAIN_GRAPH and so on. tl_backward_next continues it."},
	{name: "tl_backward_next", ret: "int32_t", params: "uint64_t session, uint64_t replacement, tl_event *event",
		doc: "Walks to the next event, or to the end (TL_DONE), which ends the session unless inputs were given. The " +
			"result of a hook, or 0, is passed as replacement in the next call."},
	{name: "tl_backward_results", ret: "int32_t", params: "uint64_t session, tl_out *outs, uint8_t *has, int32_t n",
		doc: "Gives the gradients of the inputs of tl_backward, and ends the session."},
	{name: "tl_hook", ret: "int32_t", params: "uint64_t handle, int32_t kind, uint64_t *hook",
		doc: "Adds a hook to a tensor (handle not 0) or removes hook (handle 0). kind: TL_HOOK_TENSOR and so on."},
	{name: "tl_owns_hook", ret: "int32_t", params: "uint64_t handle, uint64_t hook, int32_t *owns",
		doc: "Says whether the handle alone keeps the step that a hook is on. Then the hook goes with the handle."},
	{name: "tl_function", ret: "int32_t", params: "uint64_t handle, int32_t leaf, tl_function_info *f",
		doc: "Holds and describes the function that made a tensor; id 0 stands for none. leaf 1: for a leaf, the function " +
			"that accumulates its gradient."},
	{name: "tl_function_next", ret: "int32_t", params: "uint64_t id, tl_function_info *next, int32_t max, int32_t *n",
		doc: "Holds and describes the functions whose results function id took. When n is greater than max, nothing is " +
			"held: call again."},
	{name: "tl_function_release", ret: "int32_t", params: "uint64_t id",
		doc: "Releases one hold of a function."},
	{name: "tl_next_pack_hook", ret: "int32_t", params: "const uint64_t *handles, int32_t n, tl_out *out, int32_t " +
		"*operand, uint64_t *hook",
		doc: "Gives the next saved value that waits for its hook under TL_MODE_SAVED_TENSOR_HOOKS. It is handles[operand], " +
			"or out where operand is -1. hook is the number under which TL_UNPACK asks for it; 0: none waits. n below 0: the " +
			"values that wait are kept as they are."},
	{name: "tl_saved", ret: "int32_t", params: "uint64_t id, int32_t i, int32_t action, tl_saved_info *info, tl_out *out",
		doc: "Describes saved value i of a function, reads it, or packs it. action: TL_SAVED_DESCRIBE and so on."},
	{name: "tl_attach_history", ret: "int32_t", params: "uint64_t handle, uint64_t id, int32_t i, tl_out *out",
		doc: "Makes a tensor with the values of handle, and the history of saved value i of a function or, with i below 0, " +
			"of its result -1-i. handle 0: zeros of the shape and dtype of that result."},
	{name: "tl_leads_outside", ret: "int32_t",
		params: "const uint64_t *handles, int32_t n, uint8_t *outside",
		doc:    "Says of each of n tensors whether its history ends in a leaf that is not closed."},
	{name: "tl_close_leaves", ret: "int32_t", params: "const uint64_t *handles, int32_t n",
		doc: "Closes leaves. Gradients by them are still computed; tl_leads_outside does not count them."},
	{name: "tl_fence", ret: "int32_t", params: "int32_t kind, const uint64_t *writable, int32_t n, int32_t *recomputing",
		doc: "Begins a fence (TL_FENCE_*) in the calling thread. Until its end, a write to an older tensor fails, except " +
			"to those in writable. recomputing: whether the thread was in a TL_FENCE_RECOMPUTATION before the call."},
	{name: "tl_trace_begin", ret: "int32_t", params: "const uint64_t *args, int32_t n, tl_out *placeholders",
		doc: "Starts the capture of a function with arguments like args: run it on the placeholders, then call " +
			"tl_trace_end. Nothing is computed in between."},
	{name: "tl_trace_end", ret: "int32_t",
		params: "int32_t keep, const uint64_t *results, int32_t n, uint8_t *made, int32_t *flushes, uint64_t *id",
		doc: "Ends a capture, and undoes what the function did to older tensors. keep: captures the function under the " +
			"number id; made tells which results it made. Other results are older tensors, which no call gives. flushes: " +
			"the function flushes, and so should the caller after each call."},
	{name: "tl_captured_call", ret: "int32_t",
		params: "uint64_t id, const uint64_t *args, int32_t n, const double *numbers, int32_t supplied, " +
			"uint32_t source_loc, tl_out *outs, int32_t max, int32_t *count",
		doc: "Records a captured function on other arguments and supplied numbers, and gives the results that it makes. " +
			"count -1: the function " +
			"was captured for tensors with other gradients, or for other aliases, and nothing was recorded."},
	{name: "tl_capture_tangents", ret: "int32_t",
		params: "const uint64_t *args, int32_t n, const uint64_t *results, int32_t m, uint64_t *id",
		doc: "Captures how results depend on args, which are not computed yet, for tl_captured_call. id 0: they were " +
			"computed before."},
	{name: "tl_body_begin", ret: "int32_t", params: "const uint64_t *args, int32_t n, tl_out *placeholders",
		doc: "Starts the trace of a loop's body with arguments like args, the first carries and elements of its xs: run it " +
			"on the placeholders, then call tl_body_end. Traces of bodies nest."},
	{name: "tl_body_end", ret: "int32_t",
		params: "int32_t keep, const uint64_t *results, int32_t n, int32_t fresh, uint64_t *id",
		doc: "Ends the trace of a body; with keep it gets the number id, for tl_loop and tl_captured_free. The results " +
			"after the first, fresh of them, are carries that the body does not read."},
	{name: "tl_loop", ret: "int32_t",
		params: "uint64_t body, const int64_t *shape, const uint64_t *args, int32_t n, uint32_t source_loc, tl_out *outs, " +
			"int32_t max, int32_t *count",
		doc: "Records a loop over a body. shape has the number of carries, the number of xs, the number of iterations, at " +
			"least 1, and whether they go from the last element of xs to the first. args are the first carries and the xs. " +
			"Gives the last carries, and the other results of all iterations, stacked."},
	{name: "tl_captured_free", ret: "int32_t", params: "uint64_t id",
		doc: "Forgets a captured function or a saved program."},
	{name: "tl_export_begin", ret: "int32_t",
		params: "const uint64_t *args, int32_t n, const uint64_t *known, int32_t n_known, tl_out *placeholders",
		doc: "Starts the recording of a function with arguments like args as steps of a saved program: run it on the " +
			"placeholders, then call tl_export_end. known are the tensors that have names. Nothing is computed in between."},
	{name: "tl_export_end", ret: "int32_t",
		params: "int32_t keep, const uint64_t *results, int32_t n, char **json, size_t *bytes, tl_out *constants, " +
			"int32_t max, int32_t *count",
		doc: "Ends the recording and undoes what the function did to older tensors. keep: gives the steps and results as " +
			"JSON, which tl_free_text frees, and the count tensors that the function took from outside besides known."},
	{name: "tl_program_parse", ret: "int32_t", params: "const char *json, size_t bytes, uint64_t *id",
		doc: "Checks the text of a saved program and gives it a number."},
	{name: "tl_program_open", ret: "int32_t", params: "const char *path, uint64_t *id",
		doc: "Opens a saved program. Its text is tl_info's of kind \"program\"."},
	{name: "tl_program_constant", ret: "int32_t", params: "uint64_t id, int32_t i, tl_out *out",
		doc: "Reads constant i of an opened program to a tensor on the CPU."},
	{name: "tl_program_numbers", ret: "int32_t",
		params: "uint64_t id, const char *function, const double *numbers, int32_t n, double *supplied, int32_t max, " +
			"double *after, int32_t *count",
		doc: "Computes the count numbers that a function of a saved program takes, from the n numbers of the program, and " +
			"these after a run. count -1: the function is for other numbers."},
	{name: "tl_program_run", ret: "int32_t",
		params: "uint64_t id, const char *function, const uint64_t *tensors, int32_t n_inputs, int32_t n_constants, " +
			"const double *numbers, int32_t n_numbers, int32_t evaluation, tl_out *outs, int32_t max, " +
			"int32_t *count",
		doc: "Calls the operators of a function of a saved program in order. tensors are its inputs, then the program's " +
			"constants, to which it writes in place; numbers are what its formulas supply. evaluation: operators do not train."},
	{name: "tl_function_scope", ret: "int32_t", params: "const char *name",
		doc: "Begins a function with that name, to which all operators belong until the matching call with NULL."},
	{name: "tl_dead_hooks", ret: "int32_t", params: "uint64_t *hooks, int32_t max, int32_t *n",
		doc: "Gives the numbers of hooks whose steps are gone, so that they are never called again; each number once."},
	{name: "tl_site", ret: "uint32_t", params: "const char *file, const char *function, int32_t line",
		doc: "Gives the number of a source location."},
	{name: "tl_site_string", ret: "int32_t", params: "uint32_t source_loc, char *dst, size_t capacity",
		doc: "Writes the text of a source location, cut to capacity with its final zero."},
	{name: "tl_set_mode", ret: "int32_t", params: "int32_t mode, int64_t value, int64_t *old",
		doc: "Sets a mode (TL_MODE_*), and gives its old value. The value TL_MODE_QUERY changes nothing."},
	{name: "tl_thread", ret: "int32_t", params: "uint64_t id, int32_t ended",
		doc: "Makes id the calling thread of all calls that follow; until the first such call it is 0. Modes, named " +
			"functions and scopes are a thread's own. ended 1: thread id has ended, and 0 is the calling thread."},
	{name: "tl_rng", ret: "int32_t", params: "int32_t action, uint64_t *state",
		doc: "Seeds the generator from state[0] (TL_RNG_SEED), or reads or writes its four words (TL_RNG_GET, TL_RNG_SET)."},
	{name: "tl_info", ret: "int32_t", params: "const char *kind, uint64_t handle, char **json, size_t *bytes",
		doc: "Gives a JSON text. kind: \"devices\", \"memory_stats\", \"explain\", \"explain_program\", \"stats\", " +
			"\"windows\", \"watched\", \"leaks\", \"ops\", and of a session \"session_memory\", " +
			"\"session_profile\". Free it with tl_free_text."},
	{name: "tl_free_text", ret: "void", params: "void *p", inC: true,
		doc: "Frees a text of tl_info."},
	{name: "tl_set_option", ret: "int32_t", params: "const char *key, const char *value",
		doc: "Sets an engine option."},
	{name: "tl_session_open", ret: "int32_t",
		params: "const char *path, const char *device, int32_t threads, uint64_t *session",
		doc: "Opens a saved program for inference on a device such as \"cpu\" or \"wgpu:0\"; NULL: the CPU. threads 0: as " +
			"many as cores. Sessions may be used from any thread."},
	{name: "tl_session_of", ret: "int32_t",
		params: "uint64_t program, const uint64_t *constants, int32_t n, uint8_t device, int32_t threads, " +
			"uint8_t precision, int32_t sole, uint64_t *session",
		doc: "Opens a session on an opened program with these tensors as its constants, which stay the caller's. " +
			"precision: the dtype that products and convolutions of float32 cast to; 0 for none. sole 1: the caller will not " +
			"use the tensors nor their aliases, so that the session may free them."},
	{name: "tl_session_describe", ret: "int32_t",
		params: "uint64_t session, int32_t outputs, tl_session_value *values, int32_t max, int32_t *n",
		doc:    "Describes at most max inputs, or with outputs 1 outputs, of a session; n is their number."},
	{name: "tl_session_prepare", ret: "int32_t",
		params: "uint64_t session, const tl_session_value *inputs, int32_t n_in, tl_session_value *outputs, int32_t max, " +
			"int32_t *n_out",
		doc: "Describes the outputs for inputs of these shapes, and makes what a run on such inputs needs. " +
			"It reads no data."},
	{name: "tl_session_run", ret: "int32_t",
		params: "uint64_t session, const tl_session_value *inputs, int32_t n_in, tl_session_value *outputs, int32_t max, " +
			"int32_t *n_out",
		doc: "Runs a session on inputs, matched by name, and describes its outputs. Their memory is the session's; it is " +
			"valid until the next run, or until the session is closed."},
	{name: "tl_session_run_into", ret: "int32_t",
		params: "uint64_t session, const tl_session_value *inputs, int32_t n_in, tl_session_value *outputs, int32_t n_out",
		doc: "tl_session_run into the data of outputs, where there is room for their bytes. It must not overlap the " +
			"inputs."},
	{name: "tl_session_begin", ret: "int32_t",
		params: "uint64_t session, const tl_session_value *inputs, int32_t n_in, tl_session_value *outputs, int32_t n_out, " +
			"int32_t prepare, int64_t slice_ns, uint64_t *run",
		doc: "tl_session_run_into or, with prepare 1, tl_session_prepare in time slices. TL_PENDING after slice_ns: call " +
			"tl_session_wait with run until it ends; until then inputs and outputs, with their data, stay as they are."},
	{name: "tl_session_wait", ret: "int32_t", params: "uint64_t run, int32_t stop, int64_t slice_ns",
		doc: "Waits for a run of tl_session_begin, and gives its status. TL_PENDING after slice_ns: call again. stop 1: " +
			"asks it to end early, with TL_INTERRUPTED, and waits for its end."},
	{name: "tl_session_reset", ret: "int32_t", params: "uint64_t session",
		doc: "Gives buffers that the program writes the values that they had when the session was opened. Runs keep them " +
			"from one to the next."},
	{name: "tl_session_close", ret: "int32_t", params: "uint64_t session",
		doc: "Closes a session. An unknown one is an error."},
	{name: "tl_training_open", ret: "int32_t", params: "const char *path, const char *device, uint64_t *training",
		doc: "Opens a program of export_training on a device such as \"cpu\" or \"wgpu:0\"; NULL: the CPU. It goes on from " +
			"the file's parameters, buffers and optimizer."},
	{name: "tl_training_describe", ret: "int32_t",
		params: "uint64_t training, int32_t state, tl_session_value *values, int32_t max, int32_t *n",
		doc: "Describes at most max inputs of a step, or with state 1 parameters, buffers, the optimizer's tensors and " +
			"its numbers; n is their number."},
	{name: "tl_training_step", ret: "int32_t",
		params: "uint64_t training, const tl_session_value *inputs, int32_t n_in, int32_t evaluate, double *loss",
		doc: "Does a step on inputs, matched by name, and gives the loss before the update. evaluate 1: gives the loss in " +
			"evaluation mode, and changes nothing."},
	{name: "tl_training_read", ret: "int32_t", params: "uint64_t training, const char *name, tl_session_value *value",
		doc: "Reads a parameter, a buffer, or a tensor or number of the optimizer (float64 without dims). The memory is " +
			"the session's until the next call."},
	{name: "tl_training_write", ret: "int32_t", params: "uint64_t training, const tl_session_value *value",
		doc: "Replaces what tl_training_read reads by a value of the same name, dtype and shape: a learning rate, or state " +
			"that was kept."},
	{name: "tl_training_save", ret: "int32_t", params: "uint64_t training, const char *path",
		doc: "Writes the program with all that steps have changed to a file, from which tl_training_open goes on. The " +
			"generator's state, see tl_rng, is not in it."},
	{name: "tl_training_close", ret: "int32_t", params: "uint64_t training",
		doc: "Closes a training session. An unknown one is an error."},
	{name: "tl_reset", ret: "int32_t", params: "void",
		doc: "Restarts the engine after TL_POISONED: all handles become invalid."},
	{name: "tl_after_fork", ret: "void", params: "void", inC: true,
		doc: "Makes every later call fail. A forked child calls it, for the engine's threads did not survive the fork."},
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
enum { TL_CPU = 0, TL_META = 254 };

/* Kinds of tl_scalar. */
enum { TL_NONE = 0, TL_SCALAR_BOOL = 2, TL_SCALAR_INT = 3, TL_SCALAR_FLOAT = 4,
    TL_SCALAR_COMPLEX = 5 /* this number is the real part, the next one, of that kind too, the imaginary part */ };

/* The bits of a number that stands for the one at place i of tl_captured_call's numbers while a function is captured:
 * TL_SUPPLIED + i, of kind TL_SCALAR_FLOAT. */
#define TL_SUPPLIED ((uint64_t)0x00C0FFEE << 32)

/* An entry of tl_call.in that stands for the next entry of tl_call.scalars. */
#define TL_SCALAR_OPERAND ((uint64_t)1 << 63)

/* tl_call.mode */
enum { TL_FUNCTIONAL = 0, TL_IN_PLACE = 1, TL_INTO_OUT = 2 };

/* tl_out.flags */
enum { TL_REQUIRES_GRAD = 1, TL_LEAF = 2, TL_SAME_HANDLE = 4, TL_BATCHED = 8 /* at a level of vmap */ };

/* tl_meta.flags, beside TL_REQUIRES_GRAD and TL_LEAF */
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
enum { TL_DONE = 0, TL_RUN_HOOK = 1, TL_RUN_POST_HOOK = 2, TL_INSPECT_GRAD = 3, TL_UNPACK = 4, TL_PACK = 5,
    TL_GIVE_GRAD = 6, TL_RUN_PRE_HOOK = 7, TL_RUN_AFTER_HOOK = 8, TL_ASK_GRAD = 9 };
/* Kinds of hooks: on the gradient of a tensor; on a leaf, after it has accumulated; before and after the function that
 * made a tensor. */
enum { TL_HOOK_TENSOR = 0, TL_HOOK_ACCUMULATE = 1, TL_HOOK_PRE = 2, TL_HOOK_AFTER = 3 };

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
    TL_MODE_ALLOW_MUTATION = 8, /* saved values may be written to; no result depends on it */
    TL_MODE_SAVED_TENSOR_HOOKS = 9, /* saved values wait for tl_next_pack_hook */
    TL_MODE_VMAP = 10, /* begins a level of vmap: 4 times its size, plus 1 refuse draws, 2 draw apart, 3 draw once;
                        * 0 ends it. Gives the number of levels before. Calls at a level must not be deferred */
    TL_MODE_REGION = 11, /* the compiled region that records: TL_NEW_REGION, an old value to return to, or 0 for none */
    TL_MODE_FORWARD_LEVEL = 12, /* 0 begins a level of forward mode and gives its number, which ends it */
    TL_MODE_FORWARD_CEILING = 13 /* tangents of this level and of those above it do not count; 0 for none */
};
#define TL_NEW_REGION ((int64_t)1)
/* The value of TL_MODE_DEFAULT_DEVICE that leaves the choice to the library, as at the start. */
#define TL_NO_DEVICE ((int64_t)255)
#define TL_MODE_QUERY ((int64_t)-1)

/* kinds of tl_fence */
enum {
    TL_FENCE_END = 0, /* ends the innermost */
    TL_FENCE_QUERY = 1, /* only asks */
    TL_FENCE_NONE = 2, /* suspends the fences around it, as for the statistics that a layer updates */
    TL_FENCE_TRANSFORM = 3, /* writing raises TL_RUNTIME */
    TL_FENCE_RECOMPUTATION = 4 /* writing raises TL_IMPURE_REGION */
};

enum { TL_RNG_SEED = 0, TL_RNG_GET = 1, TL_RNG_SET = 2 };

/* A Python number: bits of a double, or an int64. */
typedef struct {
    uint8_t kind;
    uint64_t bits;
} tl_scalar;

/* A call like one whose tl_out.defer_id was not 0: the same operator, integers and numbers on tensors of the same
 * layouts, dtypes, devices and flags, under the same modes. Its result is that tl_out but for the handle, so it need
 * not be recorded at once. */
typedef struct {
    uint32_t defer_id;
    uint32_t source_loc;
    uint64_t handle; /* the result's, from tl_reserve */
    uint64_t in[TL_DEFERRED_TENSORS]; /* the tensors among the operands */
} tl_deferred;

/* One call of an operator. Its arguments are encoded flat, in the order of its signature: see engine/op/sig.go. The
 * engine keeps no pointer after the call. */
typedef struct {
    uint16_t op;
    uint8_t mode;
    uint32_t source_loc;
    const uint64_t *in;
    const int64_t *ints;
    const tl_scalar *scalars;
    const uint64_t *outs; /* mode TL_INTO_OUT: the tensors that take the results */
    const uint64_t *drop; /* handles to release first */
    const tl_deferred *queued; /* deferred calls to record before all else, as tl_record does */
    int32_t n_in, n_ints, n_scalars, n_outs, n_drop, n_queued;
} tl_call;

/* A new tensor. Only rank entries of shape are written. */
typedef struct {
    uint64_t handle;
    uint8_t dtype, device, rank, flags;
    uint32_t layout; /* a number for the sizes and strides; 0: it has none */
    int64_t numel;
    uint32_t defer_id; /* not 0: like calls can be deferred. A new upper half ends all older ones */
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

/* What a backward walk stops for.
 * TL_RUN_HOOK: call hook with grad. TL_RUN_POST_HOOK: call hook, for a leaf has accumulated.
 * TL_INSPECT_GRAD, under TL_INSPECT: grad is gradient number hook of function name, which line source_loc recorded.
 * TL_UNPACK: call hook for a saved value. TL_PACK: saved values wait for tl_next_pack_hook.
 * TL_GIVE_GRAD: grad, or none (handle 0), is the next gradient of a function's operands (hook 0) or results (hook 1).
 * TL_RUN_PRE_HOOK, TL_RUN_AFTER_HOOK: call hook with the gradients given of the results, or of both. TL_ASK_GRAD: the
 * replacement is gradient number hook that the hook leaves, 0 for none. */
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

/* actions of tl_saved. TL_SAVED_READ makes out; TL_SAVED_PACK lets a held value wait for tl_next_pack_hook */
enum { TL_SAVED_DESCRIBE = 0, TL_SAVED_READ = 1, TL_SAVED_PACK = 2 };

/* A saved value of a function. */
typedef struct {
    uint32_t state;
    uint64_t hook; /* gives the value when it is packed */
    char name[32];
} tl_saved_info;

/* An input or an output of a session. */
typedef struct {
    uint8_t dtype;
    int32_t rank;
    int64_t shape[TL_MAX_RANK]; /* in descriptions -1 where it may differ from run to run */
    void *data; /* dense and row-major */
    size_t bytes;
    char name[128];
} tl_session_value;
/* tl_engine_state.due: pending work has grown large, so tl_flush_within is to be called; exported memory must be read
 * or written before other code runs, by the same call; tl_owners has owners. */
enum { TL_DUE_NODES = 1, TL_DUE_SHARED = 2, TL_DUE_OWNERS = 4 };

/* Flags of tl_from_memory: the memory cannot be written, and a write to the tensor moves it elsewhere; it is a private
 * mapping of a file to which nothing was written, whose pages may be taken out of memory; where it is not aligned, its
 * elements are copied. */
enum { TL_READ_ONLY = 1, TL_PAGES = 2 };

/* Words of tl_watch_engine. They are read and written atomically. */
typedef struct {
    int32_t defer; /* set by the caller, who then calls tl_flush_within with due 1 when due is set */
    int32_t due;   /* bits: TL_DUE_NODES and the like */
    int32_t busy;  /* work is under way for which a thread got TL_PENDING */
    int32_t exports; /* storages whose memory is exported */
    /* handles of them, by the low word of the handle modulo the length; no call on such a handle may be deferred */
    int32_t shared[256];
} tl_engine_state;

typedef struct {
    int32_t code;
    uint32_t source_loc; /* where the failing operator was recorded; 0 when unknown */
    const char *message;
} tl_error;
`
