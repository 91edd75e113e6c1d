/* What the files of torchlette._C share.
 *
 * types.c    dtype, device, Size
 * tensor.c   the Tensor type: life of the object
 * methods.c  attributes and methods that are no operators
 * data.c     values in and out: tensor(), buffers, item, tolist
 * dlpack.c   memory lent to other libraries and taken from them
 * number.c   operators of the number protocol, comparisons, coercion to Python numbers
 * index.c    x[...] and x[...] = v
 * table.c    the table of operators, compiled
 * parser.c   arguments bound and encoded
 * call.c     one operator call: drops, results, trampolines
 * queue.c    operator calls that are recorded later
 * turn.c     threads: whose turn it is, and their modes
 * site.c     call sites
 * engine.c   errors, modes, and the functions around single tensors
 * hooks.c    hooks of tensors, and what the cyclic collector sees of them
 * nnmodule.c attributes and calls of nn.Module
 * module.c   the module
 *
 * Every function that returns PyObject * or int -1 has set an exception on failure. */
#ifndef TORCHLETTE_CORE_H
#define TORCHLETTE_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_table.h"
#include "torchlette.h"

enum { TL_INLINE_RANK = 4, TL_KEY_WORDS = 24, TL_NUM_DTYPES = TL_INT16 + 1, TL_NUM_CODES = TL_OVERFLOW + 1 };

/* Waits are cut into slices of this length so that signals are seen. */
#define TL_SLICE_NS 20000000
/* How long an exception of a signal handler waits for the work to stop. */
#define TL_PATIENCE_NS 50000000

/* A status beside the engine's: the exception is set. */
enum { TL_RAISED = -2 };

/* Through which module a tensor came: see API flavour in Tensor. */
enum { TL_API_CORE = 0, TL_API_TORCH = 1 };

typedef struct {
    PyObject_HEAD
    uint64_t handle;
    PyObject *dict;
    PyObject *weakrefs;
    struct hook *hooks; /* those added through this object; hooks.c */
    PyObject *grad; /* the object .grad gave last, so that it is the same object next time */
    int64_t numel;
    int64_t *shape; /* inline_shape, or a block of its own */
    uint8_t dtype, device, rank;
    uint8_t flags; /* TL_REQUIRES_GRAD, TL_LEAF */
    uint8_t api;  /* TL_API_TORCH: made through torchlette.torch or from such a tensor */
    uint32_t layout; /* of tl_out */
    uint32_t epoch;  /* the engine is known to have the handle while this is G.epoch */
    int64_t inline_shape[TL_INLINE_RANK];
} Tensor;

typedef struct {
    PyObject_HEAD
    uint8_t id;
} Dtype;

typedef struct {
    PyObject_HEAD
    uint8_t id;
    const char *absent; /* type of a device that is not here, else NULL */
    long index;         /* -1: none was given */
} Device;

/* A growing flat encoding of one call's arguments. */
typedef struct {
    uint64_t *in;
    int64_t *ints;
    tl_scalar *scalars;
    int32_t n_in, n_ints, n_scalars;
    int32_t cap_in, cap_ints, cap_scalars;
    uint8_t api;
    uint64_t in0[16];
    PyObject *first; /* borrowed: the first operand when it is a tensor */
    Tensor *tensors[TL_DEFERRED_TENSORS]; /* borrowed: the first tensors among the operands */
    int32_t n_tensors;                  /* how many tensors there are */
    int64_t ints0[48];
    tl_scalar scalars0[12];
} argbuf;

/* A parameter, compiled from tl_param. */
typedef struct {
    PyObject *name; /* interned */
    PyObject *alias[4]; /* interned: names that NumPy users give, and "input" for self */
    const char *text;
    uint8_t type, mods;
    uint8_t dkind; /* the default: see D_* in parser.c */
    int32_t dlen;
    int64_t dint;
    double dfloat;
    int64_t dlist[8];
    const char *const *words;
} param;

/* An overload, compiled from tl_opdef. */
typedef struct {
    const tl_opdef *def;
    param *params;
    int32_t nparams, npos;  /* npos: without keyword-only ones */
    bool list_result;
    bool creates; /* takes dtype and device, so also requires_grad, layout, pin_memory */
    PyTypeObject *result_type; /* named tuple, or NULL */
} overload;

/* The overloads behind one Python name, in the order of trying. */
typedef struct {
    const char *name;
    overload **overloads;
    int32_t n;
    uint8_t mode;  /* TL_IN_PLACE for the methods name_ */
    uint8_t where; /* union of the overloads' */
} group;

extern struct tl_globals {
    PyTypeObject *tensor, *dtype, *device, *size;
    PyObject *dtypes[TL_NUM_DTYPES];
    PyObject *errors[TL_NUM_CODES];
    PyObject *empty_tuple;
    uint8_t default_dtype; /* mirror of the engine's mode */
    int default_device; /* a thread's; -1 until it is asked for: the engine then looks for a GPU */
    uint64_t modes; /* a byte for each mode that was set; it and the two below are the running thread's */
    uint32_t epoch; /* changes when handles may have died: see Tensor */
    bool forked;
    int32_t flush_status; /* see TL_FLUSHED */
    bool refuse_draws; /* mirror of the engine's mode: calls that may draw enter the engine at once */
    tl_engine_state *engine;
    PyObject *packer; /* what saved values are given to; NULL without hooks of theirs */
    PyThreadState *running; /* the thread whose modes these are */
    PyObject *thread_key;
} G;

/* The limited API has Py_CLEAR but not these. */
#define TL_SETREF(place, value)            \
    do {                                   \
        PyObject *old_ = (PyObject *)(place); \
        (place) = (value);                 \
        Py_XDECREF(old_);                  \
    } while (0)

/* types.c */
int types_init(PyObject *module);
PyObject *dtype_object(uint8_t id);
/* dtype objects and float, int, bool; 1 found, 0 not one, -1 an error: no tensor has it */
int dtype_from(PyObject *o, uint8_t *id);
const char *dtype_name(uint8_t id);
size_t dtype_size(uint8_t id);
bool dtype_is_float(uint8_t id);
bool dtype_is_int(uint8_t id);
PyObject *device_object(uint8_t id);
int device_from(PyObject *o, uint8_t *id); /* 1 found, 0 not one, -1 error */
PyObject *size_from(const int64_t *v, Py_ssize_t n);

/* tensor.c */
int tensor_init(PyObject *module);
static inline bool is_tensor(PyObject *o) {
    return Py_TYPE(o) == G.tensor || PyType_IsSubtype(Py_TYPE(o), G.tensor);
}
PyObject *tensor_wrap(PyTypeObject *type, const tl_out *out, uint8_t api);
int tensor_update(Tensor *t, const tl_out *out);
PyObject *tensor_wrap_as(PyTypeObject *type, const tl_out *out, uint8_t api); /* a subclass of Tensor */
tl_out tensor_out(const Tensor *t); /* what tensor_update takes to make another tensor the same */
extern PyMethodDef tensor_methods[];    /* methods.c */
extern PyGetSetDef tensor_getset[];     /* methods.c */

/* data.c */
int tensor_read(Tensor *t, void *dst, size_t bytes);
PyObject *element(uint8_t dtype, const void *p);
PyObject *tensor_item(Tensor *t);
PyObject *tensor_tolist(PyObject *self, PyObject *ignored);
int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
void tensor_releasebuffer(PyObject *self, Py_buffer *view);
PyObject *scalar_tensor(PyObject *number, uint8_t dtype, uint8_t device, uint8_t api);
PyObject *data_tensor(PyObject *data, int dtype, int device, bool requires_grad, uint8_t api);
PyObject *py_tensor(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_as_tensor(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_from_numpy(PyObject *self, PyObject *array);
PyObject *py_frombytes(PyObject *self, PyObject *args);
PyObject *py_tobytes(PyObject *self, PyObject *tensor);

/* numbers.c */
PyObject *py_numbers(PyObject *self, PyObject *tensors);
PyObject *py_count(PyObject *self, PyObject *tensors);
PyObject *py_set_numbers(PyObject *self, PyObject *args);

/* dlpack.c */
PyObject *py_to_dlpack(PyObject *self, PyObject *args);
PyObject *py_from_dlpack(PyObject *self, PyObject *capsule);

/* number.c */
int number_init(void);
int number_scalar(PyObject *o, tl_scalar *s); /* 1 a Python number, 0 not one, -1 error */
PyObject *tensor_richcompare(PyObject *a, PyObject *b, int op);
extern PyType_Slot number_slots[];
int coercion_allowed(Tensor *t, const char *what); /* else the exception is set */
PyObject *coercion_text(PyObject *what);

/* index.c */
PyObject *tensor_getitem(PyObject *self, PyObject *key);
int tensor_setitem(PyObject *self, PyObject *key, PyObject *value);
Py_ssize_t tensor_length(PyObject *self);
PyObject *tensor_iter(PyObject *self);
PyObject *py_nonzero(PyObject *self, PyObject *mask);
PyObject *py_put_at(PyObject *ignored, PyObject *args);

/* parser.c */
int parser_init(void);
group *group_find(const char *name);  /* NULL when there is none */
overload *overload_named(const char *full); /* NULL when there is none */
void argbuf_init(argbuf *b);
void argbuf_clear(argbuf *b);
int put_in(argbuf *b, uint64_t handle);
int put_int(argbuf *b, int64_t v);
int put_scalar(argbuf *b, uint8_t kind, uint64_t bits);
int put_float(argbuf *b, double v);
int put_tensor(argbuf *b, PyObject *tensor);
int put_operand(argbuf *b, PyObject *o); /* a tensor or a number: 1 put, 0 neither, -1 error */
int put_default(argbuf *b, const param *p);
/* What keyword arguments of every operator's form ask for beside the signature. */
typedef struct {
    PyObject *out;       /* borrowed; NULL when not given */
    PyObject *generator; /* borrowed; NULL when not given: the engine's own numbers */
    bool requires_grad;
} extras;
/* Binds arguments to the first overload that takes them; self is NULL in a function call. */
overload *group_bind(group *g, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, argbuf *b,
    extras *x);

/* call.c */
int call_init(PyObject *module);
int call_methods(PyObject *type);
void drop_handle(uint64_t handle);
int drop_flush(void);
int engine_op(overload *o, argbuf *b, uint8_t mode, PyObject *const *outs, int n_outs, tl_out *out, int max, int *n);
PyObject *call_overload(overload *o, argbuf *b, uint8_t api);
PyObject *call_in_place(overload *o, argbuf *b, PyObject *self);
PyObject *call_group(group *g, uint8_t api, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *call_name(const char *name, PyObject *const *args, Py_ssize_t nargs); /* by Python name */

/* queue.c */
typedef struct {
    uint64_t key[TL_KEY_WORDS];
    int32_t n; /* 0: the call cannot be promised */
} call_key;
PyObject *queue_call(overload *o, argbuf *b, uint8_t api, call_key *l, bool *known);
void queue_insert(const call_key *l, const argbuf *b, const tl_out *out);
const tl_deferred *queue_take(int32_t *n); /* for the engine, which must record them next */
bool queue_waits(void); /* the engine has calls to record */
void queue_forget(void);
void queue_reset(void);
int32_t queue_record(void); /* call.c: records what is queued, drops what is dead; a status */
int32_t queue_flush(void); /* queue_record for the calling thread, whose modes count from then on */

/* turn.c */
int turn_take(uint8_t api); /* before computing, which releases the GIL; TL_API_TORCH waits */
void turn_give(void);
PyObject *py_set_busy_wait(PyObject *self, PyObject *value);
int thread_switch(void);
/* Makes the modes those of the calling thread. Python code that runs later may bring in another one. */
static inline int thread_here(void) { return PyThreadState_Get() == G.running ? 0 : thread_switch(); }

/* Whatever looks at the engine's state settles the queue before. Calls made without the GIL are not here: they
 * follow drop_flush. */
#define TL_FLUSHED(call) ((G.flush_status = thread_ready()) != TL_OK || (G.flush_status = queue_flush()) != TL_OK ? \
    G.flush_status : (call))
#define tl_from_data(...) TL_FLUSHED(tl_from_data(__VA_ARGS__))
#define tl_numbers(...) TL_FLUSHED(tl_numbers(__VA_ARGS__))
#define tl_meta_of(...) TL_FLUSHED(tl_meta_of(__VA_ARGS__))
#define tl_dispose(...) TL_FLUSHED(tl_dispose(__VA_ARGS__))
#define tl_tidy(...) TL_FLUSHED(tl_tidy(__VA_ARGS__))
#define tl_keep(...) TL_FLUSHED(tl_keep(__VA_ARGS__))
#define tl_requires_grad(...) TL_FLUSHED(tl_requires_grad(__VA_ARGS__))
#define tl_grad(...) TL_FLUSHED(tl_grad(__VA_ARGS__))
#define tl_set_grad(...) TL_FLUSHED(tl_set_grad(__VA_ARGS__))
#define tl_set_data(...) TL_FLUSHED(tl_set_data(__VA_ARGS__))
#define tl_backward(...) TL_FLUSHED(tl_backward(__VA_ARGS__))
#define tl_backward_next(...) TL_FLUSHED(tl_backward_next(__VA_ARGS__))
#define tl_backward_results(...) TL_FLUSHED(tl_backward_results(__VA_ARGS__))
#define tl_hook(...) TL_FLUSHED(tl_hook(__VA_ARGS__))
#define tl_function(...) TL_FLUSHED(tl_function(__VA_ARGS__))
#define tl_next_pack_hook(...) TL_FLUSHED(tl_next_pack_hook(__VA_ARGS__))
#define tl_saved(...) TL_FLUSHED(tl_saved(__VA_ARGS__))
#define tl_attach_history(...) TL_FLUSHED(tl_attach_history(__VA_ARGS__))
#define tl_function_next(...) TL_FLUSHED(tl_function_next(__VA_ARGS__))
#define tl_function_release(...) TL_FLUSHED(tl_function_release(__VA_ARGS__))
#define tl_leads_outside(...) TL_FLUSHED(tl_leads_outside(__VA_ARGS__))
#define tl_close_leaves(...) TL_FLUSHED(tl_close_leaves(__VA_ARGS__))
#define tl_fence(...) TL_FLUSHED(tl_fence(__VA_ARGS__))
#define tl_leaves(...) TL_FLUSHED(tl_leaves(__VA_ARGS__))
#define tl_function_scope(...) TL_FLUSHED(tl_function_scope(__VA_ARGS__))
#define tl_set_mode(...) TL_FLUSHED(tl_set_mode(__VA_ARGS__))
#define tl_set_option(...) TL_FLUSHED(tl_set_option(__VA_ARGS__))
#define tl_rng(...) TL_FLUSHED(tl_rng(__VA_ARGS__))

/* site.c */
uint32_t call_source_loc(void);
PyObject *set_package(PyObject *self, PyObject *folder);
bool globals_in_facade(PyObject *globals); /* the module with these globals imported torchlette.torch */
bool caller_in_facade(void);                 /* the code running now did */
/* the API flavour of what this package makes of no tensor: that of the code outside for which it does */
uint8_t creation_api(void);

/* nnmodule.c */
int nnmodule_init(PyObject *module);

/* engine.c */
PyObject *raise_status(int32_t status); /* NULL */
int check_status(int32_t status);       /* 0, or -1 with the exception set */
int set_mode(int32_t mode, int64_t value, int64_t *old);
int set_error(int code, const char *format, ...);        /* -1 */
PyObject *raise_text(int code, const char *format, ...); /* NULL */
int wait_force(uint64_t handle);
int wait_read(uint64_t handle, void *dst, size_t bytes);
int32_t wait_turn(void); /* a status */
int wait_due(void);
/* Nothing that holds the GIL enters the engine while it is at work for a thread that waits without. */
#define TL_BUSY_NOW() __atomic_load_n(&G.engine->busy, __ATOMIC_RELAXED)
#define TL_TURN() (TL_BUSY_NOW() ? wait_turn() : TL_OK)
/* Waits until the engine is at work for nobody, under the modes of the calling thread; a status. */
static inline int32_t thread_ready(void) {
    for (;;) {
        int32_t status = TL_TURN();
        if (status != TL_OK || (status = thread_here() < 0 ? TL_RAISED : TL_OK) != TL_OK || !TL_BUSY_NOW()) {
            return status;
        }
    }
}
/* Runs what has grown large. */
#define TL_DUE() (__atomic_load_n(&G.engine->due, __ATOMIC_RELAXED) ? wait_due() : 0)
int default_device(uint8_t *id);

/* hooks.c */
int forget_hooks(void); /* drops the functions of hooks whose steps are gone */
int visit_hooks(Tensor *t, visitproc visit, void *arg);
void clear_hooks(Tensor *t);  /* drops the hooks that go with t */
void disown_hooks(Tensor *t); /* t is going; its hooks stay while the engine may call them */
PyObject *hook_function(uint64_t id); /* borrowed; NULL when it was removed, or with an exception */
/* gives the values that steps have just saved to the packer; b: of the call, or NULL */
int pack_saved(const argbuf *b);
PyObject *unpack_saved(uint64_t hook);
extern PyMethodDef hook_functions[];
int hooks_init(void);
extern PyMethodDef engine_functions[];
int engine_init(PyObject *module);

#endif
