/* Errors, modes, and the engine's functions that are no operators. */
#include "core.h"

/* The registered class of a code. */
static PyObject *class_of(int code) {
    return code > 0 && code < TL_NUM_CODES && G.errors[code] != NULL ? G.errors[code] : PyExc_RuntimeError;
}

static void set_text(int code, const char *format, va_list args) {
    PyObject *text = PyUnicode_FromFormatV(format, args);
    if (text != NULL) {
        PyErr_SetObject(class_of(code), text);
        Py_DECREF(text);
    }
}

int set_error(int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_text(code, format, args);
    va_end(args);
    return -1;
}

PyObject *raise_text(int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_text(code, format, args);
    va_end(args);
    return NULL;
}

/* Adds the line that recorded the failing operator as a note, when the failure
 * shows up elsewhere. */
static void note_site(PyObject *exception, uint32_t source_loc) {
    if (source_loc == 0 || source_loc == call_source_loc()) {
        return;
    }
    char where[512];
    if (tl_site_string(source_loc, where, sizeof where) != TL_OK || where[0] == 0) {
        return;
    }
    PyObject *r = PyObject_CallMethod(exception, "add_note", "N", PyUnicode_FromFormat("recorded at %s", where));
    Py_XDECREF(r);
    PyErr_Clear();
}

PyObject *raise_status(int32_t status) {
    if (status == TL_RAISED) {
        return NULL;
    }
    if (status == TL_INTERRUPTED) {
        if (!PyErr_Occurred()) { /* a signal handler has raised its own */
            PyErr_SetNone(PyExc_KeyboardInterrupt);
        }
        return NULL;
    }
    const tl_error *e = tl_last_error();
    PyObject *class = class_of(status);
    uint32_t source_loc = e->source_loc;
    PyObject *exception = PyObject_CallFunction(class, "s", e->message);
    if (exception == NULL) {
        return NULL;
    }
    note_site(exception, source_loc);
    PyErr_SetObject(class, exception);
    Py_DECREF(exception);
    return NULL;
}

int check_status(int32_t status) {
    if (status == TL_OK) {
        return 0;
    }
    G.epoch++; /* what has failed may have taken tensors with it */
    raise_status(status);
    return -1;
}

static PyObject *none_or_raise(int32_t status) {
    if (status != TL_OK) {
        return raise_status(status);
    }
    Py_RETURN_NONE;
}

/* A signal handler has raised an exception: the work that was waited for stops. */
static int32_t stop_work(void) {
    Py_BEGIN_ALLOW_THREADS;
    tl_interrupt(TL_PATIENCE_NS);
    Py_END_ALLOW_THREADS;
    return TL_INTERRUPTED;
}

/* Repeats a sliced call until it is done, looking for signals in between. status is TL_INTERRUPTED, with the exception
 * set, when a signal handler has raised one. */
#define SLICED(status, call)                       \
    do {                                           \
        Py_BEGIN_ALLOW_THREADS;                    \
        status = (call);                           \
        Py_END_ALLOW_THREADS;                      \
        if (status == TL_PENDING && PyErr_CheckSignals() < 0) { \
            status = stop_work();                  \
        }                                          \
    } while (status == TL_PENDING)

int32_t wait_turn(void) {
    int32_t status;
    if (!PyErr_Occurred()) {
        SLICED(status, tl_idle(TL_SLICE_NS));
        return status;
    }
    do { /* under an exception: what runs now must not be interrupted by another one */
        Py_BEGIN_ALLOW_THREADS;
        status = tl_idle(TL_SLICE_NS);
        Py_END_ALLOW_THREADS;
    } while (status == TL_PENDING);
    return status;
}

int wait_due(void) {
    int32_t status;
    SLICED(status, tl_flush_within(1, TL_SLICE_NS));
    return check_status(status);
}

int wait_force(uint64_t handle) {
    int32_t status;
    if (drop_flush() < 0) {
        return -1;
    }
    SLICED(status, tl_force(handle, TL_SLICE_NS));
    return check_status(status);
}

/* Computes a tensor and copies its elements: one call of the engine for a value that is soon computed. */
int wait_read(uint64_t handle, void *dst, size_t bytes) {
    int32_t status;
    if (drop_flush() < 0) {
        return -1;
    }
    SLICED(status, tl_read_within(handle, dst, bytes, TL_SLICE_NS));
    return check_status(status);
}

/* _realize(tensors): the list keeps them while the engine computes. */
static PyObject *py_realize(PyObject *self, PyObject *list) {
    (void)self;
    if (!PyList_Check(list)) {
        return raise_text(TL_TYPE, "_realize(): argument must be a list, not %R", (PyObject *)Py_TYPE(list));
    }
    Py_ssize_t n = PyList_Size(list);
    uint64_t few[8], *handles = n <= 8 ? few : PyMem_Malloc((size_t)n * sizeof *handles);
    int32_t status = TL_PENDING;
    if (handles == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *t = PyList_GetItem(list, i);
        if (!is_tensor(t)) {
            raise_text(TL_TYPE, "_realize(): want tensors, not %R", (PyObject *)Py_TYPE(t));
            goto done;
        }
        handles[i] = ((Tensor *)t)->handle;
    }
    if (drop_flush() == 0) {
        SLICED(status, tl_realize(handles, (int32_t)n, TL_SLICE_NS));
    }
done:
    if (handles != few) {
        PyMem_Free(handles);
    }
    return status == TL_PENDING ? NULL : none_or_raise(status); /* pending: an exception is set */
}

static PyObject *py_mark_step(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    int32_t status;
    if (drop_flush() < 0) {
        return NULL;
    }
    SLICED(status, tl_mark_step(TL_SLICE_NS));
    return none_or_raise(status);
}

static PyObject *py_flush(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    int32_t status;
    if (drop_flush() < 0) {
        return NULL;
    }
    SLICED(status, tl_flush_within(0, TL_SLICE_NS));
    return none_or_raise(status);
}

/* Modes. The default dtype and device are mirrored here for the parser. */
int set_mode(int32_t mode, int64_t value, int64_t *old) {
    if (check_status(tl_set_mode(mode, value, old)) < 0) {
        return -1;
    }
    if (value != TL_MODE_QUERY) {
        if (mode < TL_MODE_ALLOW_MUTATION) {
            G.modes = (G.modes & ~((uint64_t)0xFF << 8 * mode)) | ((uint64_t)(value + 1) & 0xFF) << 8 * mode;
        }
        if (mode == TL_MODE_DEFAULT_DTYPE) {
            G.default_dtype = (uint8_t)value;
        } else if (mode == TL_MODE_DEFAULT_DEVICE) {
            G.default_device = (int)value;
        } else if (mode == TL_MODE_REFUSE_DRAWS) {
            G.refuse_draws = value != 0;
        }
    }
    return 0;
}

int default_device(uint8_t *id) {
    int64_t v;
    if (thread_here() < 0) {
        return -1;
    }
    if (G.default_device < 0) {
        if (check_status(tl_set_mode(TL_MODE_DEFAULT_DEVICE, TL_MODE_QUERY, &v)) < 0) {
            return -1;
        }
        G.default_device = (int)v;
    }
    *id = (uint8_t)G.default_device;
    return 0;
}

static PyObject *bool_mode(int32_t mode, PyObject *value) {
    int64_t want = TL_MODE_QUERY, old;
    if (value != NULL) {
        int truth = PyObject_IsTrue(value);
        if (truth < 0) {
            return NULL;
        }
        want = truth;
    }
    return set_mode(mode, want, &old) < 0 ? NULL : PyBool_FromLong(old != 0);
}

static PyObject *py_set_grad_enabled(PyObject *self, PyObject *v) { (void)self; return bool_mode(TL_MODE_GRAD, v); }
static PyObject *py_is_grad_enabled(PyObject *self, PyObject *n) { (void)self, (void)n;
    return bool_mode(TL_MODE_GRAD, NULL); }
static PyObject *py_set_inference(PyObject *self, PyObject *v) { (void)self; return bool_mode(TL_MODE_INFERENCE, v); }
static PyObject *py_is_inference(PyObject *self, PyObject *n) { (void)self, (void)n;
    return bool_mode(TL_MODE_INFERENCE, NULL); }
static PyObject *py_set_allow_mutation(PyObject *self, PyObject *v) { (void)self;
    return bool_mode(TL_MODE_ALLOW_MUTATION, v); }
static PyObject *py_set_refuse_draws(PyObject *self, PyObject *v) { (void)self;
    return bool_mode(TL_MODE_REFUSE_DRAWS, v); }
static PyObject *py_set_deterministic(PyObject *self, PyObject *v) { (void)self;
    return bool_mode(TL_MODE_DETERMINISTIC, v); }

/* _set_autocast(on_gpu, dtype): None turns it off, and without one it only tells. */
static PyObject *py_set_autocast(PyObject *self, PyObject *args) {
    (void)self;
    int gpu;
    PyObject *dtype = NULL;
    int64_t want = TL_MODE_QUERY, old;
    uint8_t id;
    if (!PyArg_ParseTuple(args, "p|O:_set_autocast", &gpu, &dtype)) {
        return NULL;
    }
    if (dtype == Py_None) {
        want = 0;
    } else if (dtype != NULL) {
        int found = dtype_from(dtype, &id);
        if (found < 0) {
            return NULL;
        }
        if (found == 0 || (id != TL_FLOAT16 && id != TL_BFLOAT16)) {
            return raise_text(TL_TYPE, "_set_autocast(): want float16, bfloat16 or None");
        }
        want = id;
    }
    if (set_mode(gpu ? TL_MODE_AUTOCAST_GPU : TL_MODE_AUTOCAST_CPU, want, &old) < 0) {
        return NULL;
    }
    return old != 0 ? dtype_object((uint8_t)old) : Py_NewRef(Py_None);
}

static PyObject *py_set_default_dtype(PyObject *self, PyObject *d) {
    (void)self;
    uint8_t id;
    int64_t old;
    int found = dtype_from(d, &id);
    if (found < 0) {
        return NULL;
    }
    if (found == 0 || Py_TYPE(d) != G.dtype) {
        return raise_text(TL_TYPE, "invalid dtype object");
    }
    if (!dtype_is_float(id)) {
        return raise_text(TL_TYPE, "only floating-point types are supported as the default type");
    }
    return set_mode(TL_MODE_DEFAULT_DTYPE, id, &old) < 0 ? NULL : dtype_object((uint8_t)old);
}

static PyObject *py_get_default_dtype(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    return dtype_object(G.default_dtype);
}

static PyObject *py_set_default_device(PyObject *self, PyObject *d) {
    (void)self;
    uint8_t id = TL_CPU;
    int64_t old;
    if (d != Py_None) {
        int found = device_from(d, &id);
        if (found <= 0) {
            return found < 0 ? NULL : raise_text(TL_TYPE, "set_default_device(): argument must be device, str or int");
        }
    }
    return set_mode(TL_MODE_DEFAULT_DEVICE, id, &old) < 0 ? NULL : device_object((uint8_t)old);
}

static PyObject *py_get_default_device(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    uint8_t id;
    return default_device(&id) < 0 ? NULL : device_object(id);
}

static PyObject *py_manual_seed(PyObject *self, PyObject *seed) {
    (void)self;
    PyObject *index = PyNumber_Index(seed);
    if (index == NULL) {
        return NULL;
    }
    /* PyTorch takes any 64 bits, negative ones too. */
    uint64_t word = PyLong_AsUnsignedLongLongMask(index);
    Py_DECREF(index);
    return PyErr_Occurred() ? NULL : none_or_raise(tl_rng(TL_RNG_SEED, &word));
}

static PyObject *py_rng_state(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    unsigned long long w[4];
    uint64_t s[4];
    if (check_status(tl_rng(TL_RNG_GET, s)) < 0) {
        return NULL;
    }
    for (int i = 0; i < 4; i++) {
        w[i] = s[i];
    }
    return Py_BuildValue("(KKKK)", w[0], w[1], w[2], w[3]);
}

static PyObject *py_set_rng_state(PyObject *self, PyObject *words) {
    (void)self;
    unsigned long long w[4];
    if (!PyTuple_Check(words)) {
        return raise_text(TL_TYPE, "_set_rng_state(): argument must be a tuple of four ints");
    }
    if (!PyArg_ParseTuple(words, "KKKK:_set_rng_state", &w[0], &w[1], &w[2], &w[3])) {
        return NULL;
    }
    uint64_t s[4] = {w[0], w[1], w[2], w[3]};
    return none_or_raise(tl_rng(TL_RNG_SET, s));
}

static PyObject *py_info(PyObject *self, PyObject *args) {
    (void)self;
    const char *kind;
    PyObject *tensor = Py_None;
    if (!PyArg_ParseTuple(args, "s|O:_info", &kind, &tensor)) {
        return NULL;
    }
    uint64_t h = is_tensor(tensor) ? ((Tensor *)tensor)->handle : 0;
    char *json;
    size_t bytes;
    int32_t status;
    if (drop_flush() < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = tl_info(kind, h, &json, &bytes);
    Py_END_ALLOW_THREADS;
    if (status != TL_OK) {
        return raise_status(status);
    }
    PyObject *text = PyUnicode_DecodeUTF8(json, (Py_ssize_t)bytes, "replace");
    tl_free_text(json);
    return text;
}

static PyObject *py_set_option(PyObject *self, PyObject *args) {
    (void)self;
    const char *key, *value;
    if (!PyArg_ParseTuple(args, "ss:_set_option", &key, &value)) {
        return NULL;
    }
    queue_forget();
    return none_or_raise(tl_set_option(key, value));
}

static PyObject *py_reset(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    int32_t status;
    if (drop_flush() < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = tl_reset();
    Py_END_ALLOW_THREADS;
    queue_reset();
    return none_or_raise(status);
}

static PyObject *py_after_fork(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    G.forked = true;
    queue_reset(); /* the next call is refused at once */
    tl_after_fork();
    Py_RETURN_NONE;
}

/* Handles of a sequence of tensors, for calls that take lists. NULL entries of
 * none_ok sequences may be None. Frees with PyMem_Free. */
static uint64_t *handles_of(PyObject *sequence, Py_ssize_t *n, bool none_ok) {
    *n = PySequence_Size(sequence);
    if (*n < 0) {
        return NULL;
    }
    uint64_t *hs = PyMem_Malloc(((size_t)*n + 1) * sizeof *hs);
    if (hs == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < *n; i++) {
        PyObject *t = PySequence_GetItem(sequence, i);
        bool tensor = t != NULL && is_tensor(t);
        if (!tensor && !(t == Py_None && none_ok)) {
            if (t != NULL) {
                raise_text(TL_TYPE, "expected Tensor as element %zd, but got %R", i, (PyObject *)Py_TYPE(t));
            }
            Py_XDECREF(t);
            PyMem_Free(hs);
            return NULL;
        }
        hs[i] = tensor ? ((Tensor *)t)->handle : 0;
        Py_DECREF(t);
    }
    return hs;
}

static PyObject *py_tidy(PyObject *self, PyObject *args) {
    (void)self;
    int begin;
    PyObject *returned = G.empty_tuple;
    if (!PyArg_ParseTuple(args, "p|O:_tidy", &begin, &returned) || drop_flush() < 0) {
        return NULL;
    }
    Py_ssize_t n;
    uint64_t *hs = handles_of(returned, &n, false);
    if (hs == NULL) {
        return NULL;
    }
    int32_t status = tl_tidy(begin, hs, (int32_t)n);
    G.epoch += !begin;
    PyMem_Free(hs);
    return none_or_raise(status);
}

/* Calls a hook with a gradient, or with None after a leaf has accumulated. *replacement is what
 * it returned, or NULL. */
static int run_hook(const tl_event *event, PyObject **replacement) {
    bool post = event->kind == TL_RUN_POST_HOOK;
    *replacement = NULL;
    PyObject *grad = post ? Py_NewRef(Py_None) : tensor_wrap(G.tensor, &event->grad, TL_API_CORE);
    PyObject *fn = grad != NULL ? hook_function(event->hook) : NULL;
    if (fn == NULL) { /* removed meanwhile */
        Py_XDECREF(grad);
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_INCREF(fn);
    PyObject *result = PyObject_CallFunctionObjArgs(fn, grad, NULL);
    Py_DECREF(fn);
    Py_DECREF(grad);
    if (result == NULL) {
        return -1;
    }
    if (result == Py_None || post) {
        Py_DECREF(result);
        return 0;
    }
    if (!is_tensor(result)) {
        raise_text(TL_TYPE, "expected hook to return None or a Tensor, got %R", (PyObject *)Py_TYPE(result));
        Py_DECREF(result);
        return -1;
    }
    *replacement = result;
    return 0;
}

/* Hands a gradient to the inspector with the number and the name of the function that gave it, and the line that
 * recorded that. */
static int inspect_grad(const tl_event *event, PyObject *inspector) {
    char where[512] = "";
    if (event->source_loc != 0 && check_status(tl_site_string(event->source_loc, where, sizeof where)) < 0) {
        return -1;
    }
    PyObject *grad = tensor_wrap(G.tensor, &event->grad, TL_API_CORE);
    PyObject *result = grad != NULL ? PyObject_CallFunction(inspector, "sisO", event->name, (int)event->hook, where,
        grad) : NULL;
    Py_XDECREF(grad);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* Ends a session that failed, by asking for no results; one that has ended is ignored. The queue need not settle. */
static void end_walk(uint64_t session) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    (tl_backward_results)(session, NULL, NULL, 0);
    PyErr_Restore(type, value, trace);
}

/* Walks to the end of a session, running hooks. After a failure the session is
 * ended by asking for no results. */
static int walk(uint64_t session, PyObject *inspector) {
    PyObject *replacement = NULL;
    for (;;) {
        tl_event event;
        memset(&event, 0, sizeof event);
        int32_t status = tl_backward_next(session, replacement != NULL ? ((Tensor *)replacement)->handle : 0, &event);
        Py_CLEAR(replacement);
        if (status != TL_OK) {
            raise_status(status);
            end_walk(session);
            return -1;
        }
        if (event.kind == 0) {
            return 0;
        }
        int failed;
        switch (event.kind) {
        case TL_INSPECT_GRAD:
            failed = inspect_grad(&event, inspector);
            break;
        case TL_UNPACK:
            replacement = unpack_saved(event.hook);
            failed = replacement != NULL ? 0 : -1;
            break;
        case TL_PACK:
            failed = pack_saved(NULL);
            break;
        default:
            failed = run_hook(&event, &replacement);
        }
        if (failed < 0) {
            end_walk(session);
            return -1;
        }
    }
}

static PyObject *collect(uint64_t session, Py_ssize_t n) {
    tl_out *outs = PyMem_Calloc((size_t)n + 1, sizeof *outs);
    uint8_t *has = PyMem_Calloc((size_t)n + 1, 1);
    PyObject *tuple = NULL;
    if (outs == NULL || has == NULL) {
        PyErr_NoMemory();
    } else if (check_status(tl_backward_results(session, outs, has, (int32_t)n)) == 0) {
        tuple = PyTuple_New(n);
        for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
            PyObject *g = has[i] ? tensor_wrap(G.tensor, &outs[i], TL_API_CORE) : Py_NewRef(Py_None);
            if (g == NULL || PyTuple_SetItem(tuple, i, g) < 0) {
                Py_CLEAR(tuple);
            }
        }
    }
    PyMem_Free(outs);
    PyMem_Free(has);
    return tuple;
}

static PyObject *run_backward(PyObject *roots, PyObject *grads, PyObject *inputs, uint32_t flags, PyObject *inspector) {
    Py_ssize_t n, ng, ni = 0;
    uint64_t *in = NULL, *g = NULL, *r = handles_of(roots, &n, false);
    PyObject *result = NULL;
    uint64_t session = 0;
    flags |= inspector != Py_None ? TL_INSPECT : 0u;
    if (r == NULL || (g = handles_of(grads, &ng, true)) == NULL ||
        (inputs != Py_None && (in = handles_of(inputs, &ni, false)) == NULL)) {
        goto done;
    }
    if (n != ng) {
        raise_text(TL_RUNTIME, "got %zd tensors and %zd gradients", n, ng);
        goto done;
    }
    if (drop_flush() < 0 || check_status(tl_backward(r, g, (int32_t)n, in, (int32_t)ni, flags, &session)) < 0 ||
        walk(session, inspector) < 0) {
        goto done;
    }
    if ((flags & TL_ACCUMULATE) == 0) {
        result = collect(session, ni);
    } else if (ni == 0 || check_status(tl_backward_results(session, NULL, NULL, 0)) == 0) {
        result = Py_NewRef(Py_None); /* a walk to the leaves ends by itself */
    }
    if (result != NULL && forget_hooks() < 0) { /* what hooks made of saved values that the walk let go */
        Py_CLEAR(result);
    }
done:
    PyMem_Free(r);
    PyMem_Free(g);
    PyMem_Free(in);
    return result;
}

static PyObject *py_backward(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *roots, *grads, *inputs = Py_None, *inspector = Py_None;
    int keep, create;
    if (!PyArg_ParseTuple(args, "OOpp|OO:_backward", &roots, &grads, &keep, &create, &inputs, &inspector)) {
        return NULL;
    }
    return run_backward(roots, grads, inputs, (keep ? TL_RETAIN_GRAPH : 0u) | (create ? TL_CREATE_GRAPH :
        0u) | TL_ACCUMULATE, inspector);
}

static PyObject *py_grad(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *roots, *grads, *inputs, *inspector = Py_None;
    int keep, create, unused = 0, quiet = 0;
    if (!PyArg_ParseTuple(args, "OOOpp|ppO:_grad", &roots, &grads, &inputs, &keep, &create, &unused, &quiet,
        &inspector)) {
        return NULL;
    }
    return run_backward(roots, grads, inputs,
                        (keep ? TL_RETAIN_GRAPH : 0u) | (create ? TL_CREATE_GRAPH : 0u) | (unused ? TL_ALLOW_UNUSED :
                            0u) |
                            (quiet ? TL_NO_LEAF_HOOKS : 0u),
                        inspector);
}

/* A function of the graph for Python: (id, name, output, site), None for none. */
static PyObject *function_tuple(const tl_function_info *f) {
    if (f->id == 0) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(KsII)", (unsigned long long)f->id, f->name, (unsigned int)f->output,
        (unsigned int)f->source_loc);
}

static PyObject *py_function(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *tensor;
    int leaf = 0;
    tl_function_info f = {0};
    if (!PyArg_ParseTuple(args, "O!|p:_function", (PyObject *)G.tensor, &tensor, &leaf) ||
        check_status(tl_function(((Tensor *)tensor)->handle, leaf, &f)) < 0) {
        return NULL;
    }
    return function_tuple(&f);
}

static PyObject *py_function_next(PyObject *self, PyObject *key) {
    (void)self;
    uint64_t id = PyLong_AsUnsignedLongLong(key);
    tl_function_info *next = NULL;
    int32_t room = 0, n = 0;
    if (PyErr_Occurred() || check_status(tl_function_next(id, NULL, 0, &n)) < 0) {
        return NULL;
    }
    while (n > room) { /* held when all of them fit */
        room = n;
        PyMem_Free(next);
        next = PyMem_Calloc((size_t)room, sizeof *next);
        if (next == NULL) {
            return PyErr_NoMemory();
        }
        if (check_status(tl_function_next(id, next, room, &n)) < 0) {
            PyMem_Free(next);
            return NULL;
        }
    }
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *f = function_tuple(&next[i]);
        if (f == NULL || PyTuple_SetItem(tuple, i, f) < 0) {
            Py_CLEAR(tuple);
        }
    }
    PyMem_Free(next);
    return tuple;
}

static PyObject *py_function_release(PyObject *self, PyObject *key) {
    (void)self;
    uint64_t id = PyLong_AsUnsignedLongLong(key);
    if (PyErr_Occurred() || (!G.forked && check_status(tl_function_release(id)) < 0)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* The leaves whose gradients the history of some tensors ends in, as new tensors. */
static PyObject *py_leaves(PyObject *self, PyObject *tensors) {
    (void)self;
    Py_ssize_t n_roots;
    int32_t room = 0, n = 0;
    tl_out *out = NULL;
    uint64_t *roots = handles_of(tensors, &n_roots, false);
    if (roots == NULL) {
        return NULL;
    }
    int32_t status = tl_leaves(roots, (int32_t)n_roots, NULL, 0, &n);
    while (status == TL_OK && n > room) { /* made when all of them fit */
        room = n;
        PyMem_Free(out);
        out = PyMem_Calloc((size_t)room, sizeof *out);
        status = out == NULL ? TL_OUT_OF_MEMORY : tl_leaves(roots, (int32_t)n_roots, out, room, &n);
    }
    PyMem_Free(roots);
    PyObject *tuple = status == TL_OK ? PyTuple_New(n) : out == NULL && room > 0 ? PyErr_NoMemory() :
        raise_status(status);
    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *t = tensor_wrap(G.tensor, &out[i], TL_API_CORE);
        if (t == NULL || PyTuple_SetItem(tuple, i, t) < 0) {
            Py_CLEAR(tuple);
        }
    }
    PyMem_Free(out);
    return tuple;
}

/* Of each of some tensors, whether its history leads to a leaf that is not closed. */
static PyObject *py_leads_outside(PyObject *self, PyObject *tensors) {
    (void)self;
    Py_ssize_t n;
    PyObject *tuple = NULL;
    uint64_t *hs = handles_of(tensors, &n, false);
    uint8_t *outside = hs != NULL ? PyMem_Calloc((size_t)n + 1, 1) : NULL;
    if (hs != NULL && outside == NULL) {
        PyErr_NoMemory();
    } else if (hs != NULL && check_status(tl_leads_outside(hs, (int32_t)n, outside)) == 0) {
        tuple = PyTuple_New(n);
        for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
            if (PyTuple_SetItem(tuple, i, PyBool_FromLong(outside[i])) < 0) {
                Py_CLEAR(tuple);
            }
        }
    }
    PyMem_Free(hs);
    PyMem_Free(outside);
    return tuple;
}

static PyObject *py_close_leaves(PyObject *self, PyObject *leaves) {
    (void)self;
    Py_ssize_t n;
    uint64_t *hs = handles_of(leaves, &n, false);
    if (hs == NULL) {
        return NULL;
    }
    int32_t status = tl_close_leaves(hs, (int32_t)n);
    PyMem_Free(hs);
    return none_or_raise(status);
}

/* Begins or ends a fence, or asks; gives whether the thread was in a recomputation. */
static PyObject *py_fence(PyObject *self, PyObject *args) {
    (void)self;
    int kind;
    int32_t recomputing = 0;
    PyObject *writable = G.empty_tuple;
    Py_ssize_t n;
    uint64_t *hs;
    if (!PyArg_ParseTuple(args, "i|O:_fence", &kind, &writable) || (hs = handles_of(writable, &n, false)) == NULL) {
        return NULL;
    }
    int32_t status = kind == TL_FENCE_END ? (tl_fence)(kind, NULL, 0, &recomputing) /* whatever the queue holds */
                                          : tl_fence(kind, hs, (int32_t)n, &recomputing);
    PyMem_Free(hs);
    return check_status(status) < 0 ? NULL : PyBool_FromLong(recomputing);
}

static PyObject *py_function_scope(PyObject *self, PyObject *name) {
    (void)self;
    const char *text = name != Py_None ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    return PyErr_Occurred() ? NULL : none_or_raise(tl_function_scope(text));
}

static PyObject *py_set_errors(PyObject *self, PyObject *classes) {
    (void)self;
    if (!PyDict_Check(classes)) {
        return raise_text(TL_TYPE, "_set_errors(): argument must be dict");
    }
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(classes, &at, &key, &value)) {
        long code = PyLong_AsLong(key);
        if (code == -1 && PyErr_Occurred()) {
            return NULL;
        }
        if (code <= 0 || code >= TL_NUM_CODES || !PyType_Check(value)) {
            return raise_text(TL_VALUE, "_set_errors(): code %ld is wrong: want 1 to %d, and a class", code,
                TL_NUM_CODES - 1);
        }
        TL_SETREF(G.errors[code], Py_NewRef(value));
    }
    Py_RETURN_NONE;
}

static PyObject *py_site_string(PyObject *self, PyObject *source_loc) {
    (void)self;
    char where[512];
    unsigned long id = PyLong_AsUnsignedLong(source_loc);
    if (PyErr_Occurred() || check_status(tl_site_string((uint32_t)id, where, sizeof where)) < 0) {
        return NULL;
    }
    return PyUnicode_DecodeUTF8(where, (Py_ssize_t)strlen(where), "replace");
}

/* What computes takes its turn. */
#define IN_TURN(function)                                                     \
    static PyObject *function##_in_turn(PyObject *self, PyObject *argument) { \
        if (turn_take(TL_API_CORE) < 0) {                                    \
            return NULL;                                                      \
        }                                                                     \
        PyObject *r = function(self, argument);                               \
        turn_give();                                                          \
        return r;                                                             \
    }
IN_TURN(py_mark_step)
IN_TURN(py_flush)
IN_TURN(py_realize)
IN_TURN(py_reset)
IN_TURN(py_backward)
IN_TURN(py_grad)

PyMethodDef engine_functions[] = {
    {"mark_step", py_mark_step_in_turn, METH_NOARGS,
        "mark_step()\n--\n\nRun everything pending, wait for it, and begin a new step."},
    {"flush", py_flush_in_turn, METH_NOARGS, "flush()\n--\n\nSubmit everything pending without waiting."},
    {"_numbers", py_numbers, METH_O, "The numbers of one-element tensors, as a list of floats."},
    {"_count", py_count, METH_O, "Add one to each of some one-element tensors, in place; gives the new numbers."},
    {"_set_numbers", py_set_numbers, METH_VARARGS, "Give each of some one-element tensors a number, in place."},
    {"_set_grad_enabled", py_set_grad_enabled, METH_O, "Set gradient recording; gives the old state."},
    {"is_grad_enabled", py_is_grad_enabled, METH_NOARGS, "is_grad_enabled()\n--\n\nWhether gradients are recorded."},
    {"_set_inference_mode", py_set_inference, METH_O, "Set inference mode; gives the old state."},
    {"is_inference_mode_enabled", py_is_inference, METH_NOARGS,
        "is_inference_mode_enabled()\n--\n\nWhether inference mode is on."},
    {"_set_allow_mutation", py_set_allow_mutation, METH_O, "Let saved values be written to; gives the old state."},
    {"_set_refuse_draws", py_set_refuse_draws, METH_O, "Make draws of random numbers errors; gives the old state."},
    {"_set_deterministic", py_set_deterministic, METH_O, "Make results independent of the order of threads."},
    {"_set_busy_wait", py_set_busy_wait, METH_O,
        "Let all code wait while another thread computes, not only that of torchlette.torch; gives the former."},
    {"_set_autocast", py_set_autocast, METH_VARARGS,
        "Cast operands on the CPU or on GPUs to a dtype; gives the old one."},
    {"_set_default_dtype", py_set_default_dtype, METH_O, "Set the default dtype; gives the old one."},
    {"get_default_dtype", py_get_default_dtype, METH_NOARGS,
        "get_default_dtype()\n--\n\nThe dtype of floating point tensors made without one."},
    {"_set_default_device", py_set_default_device, METH_O, "Set the default device; gives the old one."},
    {"get_default_device", py_get_default_device, METH_NOARGS,
        "get_default_device()\n--\n\nThe device of tensors made without one."},
    {"_manual_seed", py_manual_seed, METH_O, "Seed the generator."},
    {"_rng_state", py_rng_state, METH_NOARGS, "State of the generator: four words."},
    {"_set_rng_state", py_set_rng_state, METH_O, "Restore the generator's state."},
    {"_info", py_info, METH_VARARGS, "A JSON text about the engine: kind, and a tensor for \"explain\"."},
    {"_set_option", py_set_option, METH_VARARGS, "Set an engine option."},
    {"_reset", py_reset_in_turn, METH_NOARGS, "Start the engine anew."},
    {"_after_fork", py_after_fork, METH_NOARGS, "Runs in a forked child."},
    {"_realize", py_realize_in_turn, METH_O, "Compute the values of a list of tensors and wait."},
    {"_tidy", py_tidy, METH_VARARGS, "Open or close a scope."},
    {"_backward", py_backward_in_turn, METH_VARARGS, "Accumulate gradients into leaves."},
    {"_grad", py_grad_in_turn, METH_VARARGS, "Gradients of roots by inputs."},
    {"_function", py_function, METH_VARARGS, "Hold what made a tensor: (id, name, output, site) or None."},
    {"_function_next", py_function_next, METH_O, "Hold the functions whose results a function took."},
    {"_function_release", py_function_release, METH_O, "Give one hold of a function back."},
    {"_leaves", py_leaves, METH_O, "The leaves that the history of some tensors ends in."},
    {"_leads_outside", py_leads_outside, METH_O,
        "Of tensors, whether the history of each ends in a leaf that is not closed."},
    {"_close_leaves", py_close_leaves, METH_O, "Close leaves: they do not count for _leads_outside."},
    {"_fence", py_fence, METH_VARARGS,
        "Begin or end a fence before older tensors, or ask whether this is a recomputation."},
    {"_function_scope", py_function_scope, METH_O, "Begin a function of that name, or end it (None)."},
    {"_set_errors", py_set_errors, METH_O, "Register the error classes by code."},
    {"_set_package", set_package, METH_O,
        "Name the folder whose code is the library's own: call sites are those of its callers."},
    {"_site_string", py_site_string, METH_O, "The text of a call site."},
    {0},
};

int engine_init(PyObject *module) {
    (void)module;
    int64_t v;
    if (check_status(tl_set_mode(TL_MODE_DEFAULT_DTYPE, TL_MODE_QUERY, &v)) < 0) {
        return -1;
    }
    G.default_dtype = (uint8_t)v;
    G.default_device = -1;
    return check_status(tl_set_mode(TL_MODE_BUSY_WAIT, 1, &v)); /* turns are taken here: see turn.c */
}
