#include "modes.h"

#include "cpython.h"
#include "device.h"
#include "errors.h"
#include "flush.h"
#include "source_loc.h"
#include "threads.h"
#include "torchlette.h"
#include "turn.h"
#include "types.h"

int set_mode(int32_t mode, int64_t value, int64_t *old) {
    if (check_status(tl_set_mode(mode, value, old)) < 0) {
        return -1;
    }
    if (value != TL_MODE_QUERY) {
        if (mode < TL_MODE_ALLOW_MUTATION) {
            current.modes = (current.modes & ~((uint64_t)0xFF << 8 * mode)) |
                ((uint64_t)(value + 1) & 0xFF) << 8 * mode;
        }
        if (mode == TL_MODE_DEFAULT_DTYPE) {
            current.default_dtype = (uint8_t)value;
        } else if (mode == TL_MODE_DEFAULT_DEVICE) {
            current.default_device = value == TL_NO_DEVICE ? -1 : (int)value;
        } else if (mode == TL_MODE_VMAP) {
            current.vmap_levels = (int)*old + (value != 0 ? 1 : -1);
        }
    }
    return 0;
}

int use_default_device(uint8_t api) {
    if (thread_here() < 0) {
        return -1;
    }
    int want = current.chosen_device;
    if (want < 0 && (api & TL_API_TORCH) != 0) {
        int named = device_in_environment();
        if (named < 0) {
            return -1;
        }
        want = named ? -1 : TL_CPU;
    }
    int64_t old;
    return want == current.default_device
        ? 0
        : set_mode(TL_MODE_DEFAULT_DEVICE, want < 0 ? TL_NO_DEVICE : (int64_t)want, &old);
}

int default_device_id(uint8_t api, uint8_t *id) {
    static int own = -1; /* the engine's choice, which does not change */
    if (use_default_device(api) < 0) {
        return -1;
    }
    if (current.default_device >= 0) {
        *id = (uint8_t)current.default_device;
        return 0;
    }
    int64_t v;
    if (own < 0) {
        if (check_status(tl_set_mode(TL_MODE_DEFAULT_DEVICE, TL_MODE_QUERY, &v)) < 0) {
            return -1;
        }
        own = (int)v;
    }
    *id = (uint8_t)own;
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

static PyObject *py_set_grad_enabled(PyObject *self, PyObject *v) {
    (void)self;
    return bool_mode(TL_MODE_GRAD, v);
}

static PyObject *py_is_grad_enabled(PyObject *self, PyObject *n) {
    (void)self, (void)n;
    return bool_mode(TL_MODE_GRAD, NULL);
}

static PyObject *py_set_inference(PyObject *self, PyObject *v) {
    (void)self;
    return bool_mode(TL_MODE_INFERENCE, v);
}

static PyObject *py_is_inference(PyObject *self, PyObject *n) {
    (void)self, (void)n;
    return bool_mode(TL_MODE_INFERENCE, NULL);
}

static PyObject *py_set_allow_mutation(PyObject *self, PyObject *v) {
    (void)self;
    return bool_mode(TL_MODE_ALLOW_MUTATION, v);
}

static PyObject *number_mode(int32_t mode, PyObject *v) {
    int64_t value = PyLong_AsLongLong(v), old;
    if (value == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return set_mode(mode, value, &old) < 0 ? NULL : PyLong_FromLongLong(old);
}

static PyObject *py_vmap(PyObject *self, PyObject *v) {
    (void)self;
    return number_mode(TL_MODE_VMAP, v);
}

static PyObject *py_forward_level(PyObject *self, PyObject *v) {
    (void)self;
    return number_mode(TL_MODE_FORWARD_LEVEL, v);
}

static PyObject *py_forward_ceiling(PyObject *self, PyObject *v) {
    (void)self;
    return number_mode(TL_MODE_FORWARD_CEILING, v);
}

static PyObject *py_set_deterministic(PyObject *self, PyObject *v) {
    (void)self;
    return bool_mode(TL_MODE_DETERMINISTIC, v);
}

/* _set_autocast(on_gpu, dtype): None turns autocast off; without a dtype nothing changes. Returns the old dtype. */
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
            return raise_text(TL_TYPE, "_set_autocast(): expected float16, bfloat16 or None, got %R", dtype);
        }
        want = id;
    }
    if (set_mode(gpu ? TL_MODE_AUTOCAST_GPU : TL_MODE_AUTOCAST_CPU, want, &old) < 0) {
        return NULL;
    }
    return old != 0 ? dtype_object((uint8_t)old) : Py_NewRef(Py_None);
}

/* The state of compiled functions in the calling thread, as a number: the engine's region above current.compile. Gives
 * the old state; NULL on failure. */
static PyObject *swap_compile(int64_t region, int compile) {
    int64_t old;
    if (set_mode(TL_MODE_REGION, region, &old) < 0) {
        return NULL;
    }
    old = old << COMPILE_BITS | current.compile;
    current.compile = (uint8_t)compile;
    return PyLong_FromLongLong(old);
}

PyObject *compiled_entered(bool mark, bool refuse) {
    if (thread_here() < 0) {
        return NULL;
    }
    int was = current.compile, now = was | COMPILING | (refuse ? REFUSES_READS : 0) | (mark ? MARKED : 0);
    return swap_compile((now & ~was & MARKED) ? TL_NEW_REGION : TL_MODE_QUERY, now);
}

PyObject *compiled_left(PyObject *state) {
    int64_t next = PyLong_AsLongLong(state);
    if ((next == -1 && PyErr_Occurred()) || thread_here() < 0) {
        return NULL;
    }
    return swap_compile(next >> COMPILE_BITS, (int)(next & ((1 << COMPILE_BITS) - 1)));
}

/* _enter_compiled(mark, refuse_reads): a compiled function begins. With mark, what it records is in a region: a new
 * one, unless one is open. Gives the state for _set_compiled at its end. */
static PyObject *py_enter_compiled(PyObject *self, PyObject *args) {
    (void)self;
    int mark, refuse;
    return PyArg_ParseTuple(args, "pp:_enter_compiled", &mark, &refuse) ? compiled_entered(mark, refuse) : NULL;
}

/* _set_compiled(state): 0 is the state outside of all compiled functions. Gives the old state. */
static PyObject *py_set_compiled(PyObject *self, PyObject *state) {
    (void)self;
    return compiled_left(state);
}

static PyObject *py_compile_state(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    return thread_here() < 0 ? NULL : PyLong_FromLong(current.compile);
}

static PyObject *py_set_default_dtype(PyObject *self, PyObject *d) {
    (void)self;
    uint8_t id;
    int64_t old;
    int found = dtype_from(d, &id);
    if (found < 0) {
        return NULL;
    }
    if (found == 0 || Py_TYPE(d) != DtypeType) {
        return raise_text(TL_TYPE, "invalid dtype object");
    }
    if (!dtype_is_float(id)) {
        return raise_text(TL_TYPE, "only floating-point types are supported as the default type");
    }
    return set_mode(TL_MODE_DEFAULT_DTYPE, id, &old) < 0 ? NULL : dtype_object((uint8_t)old);
}

static PyObject *py_get_default_dtype(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    return dtype_object(current.default_dtype);
}

static PyObject *py_set_default_device(PyObject *self, PyObject *d) {
    (void)self;
    uint8_t id;
    int found = d == Py_None ? 1 : device_from(d, &id);
    if (found <= 0) {
        return found < 0 ? NULL : raise_text(TL_TYPE, "set_default_device(): argument must be device, str or int");
    }
    if (thread_here() < 0) {
        return NULL;
    }
    int old = current.chosen_device;
    current.chosen_device = d == Py_None ? -1 : id;
    return old < 0 ? Py_NewRef(Py_None) : device_object((uint8_t)old);
}

PyObject *py_get_default_device(PyObject *self, PyObject *ignored) {
    (void)ignored;
    uint8_t id, api = self == Py_True ? TL_API_TORCH : creation_api();
    return default_device_id(api, &id) < 0 ? NULL : device_called(id, api);
}

PyMethodDef mode_functions[] = {
    {"_set_grad_enabled", py_set_grad_enabled, METH_O, "Set gradient recording; gives the old state."},
    {"is_grad_enabled", py_is_grad_enabled, METH_NOARGS, "is_grad_enabled()\n--\n\nWhether gradients are recorded."},
    {"_set_inference_mode", py_set_inference, METH_O, "Set inference mode; gives the old state."},
    {"is_inference_mode_enabled", py_is_inference, METH_NOARGS,
        "is_inference_mode_enabled()\n--\n\nWhether inference mode is on."},
    {"_set_allow_mutation", py_set_allow_mutation, METH_O, "Let saved values be written to; gives the old state."},
    {"_vmap", py_vmap, METH_O, "Begin a level of vmap, or end it with 0; gives the number of levels before."},
    {"_forward_level", py_forward_level, METH_O, "Begin a level of forward mode with 0, or end one by its number."},
    {"_forward_ceiling", py_forward_ceiling, METH_O, "Ignore tangents from a level on; gives the old one."},
    {"_set_deterministic", py_set_deterministic, METH_O, "Make results independent of the order of threads."},
    {"_set_busy_wait", py_set_busy_wait, METH_O,
        "Let all code wait while another thread computes, not only that of torchlette.torch; gives the former."},
    {"_set_autocast", py_set_autocast, METH_VARARGS,
        "Cast operands on the CPU or on GPUs to a dtype; gives the old one."},
    {"_enter_compiled", py_enter_compiled, METH_VARARGS, "Begin a compiled function; gives the state to return to."},
    {"_set_compiled", py_set_compiled, METH_O, "Set the state of compiled functions, 0 for none; gives the old one."},
    {"_compile_state", py_compile_state, METH_NOARGS, "Bits: in a compiled function, no reads, in a region."},
    {"_set_default_dtype", py_set_default_dtype, METH_O, "Set the default dtype; gives the old one."},
    {"get_default_dtype", py_get_default_dtype, METH_NOARGS,
        "get_default_dtype()\n--\n\nThe dtype of floating point tensors made without one."},
    {"_set_default_device", py_set_default_device, METH_O,
        "Set the default device, None for that of the API flavour; gives what was set."},
    {0},
};

int modes_init(void) {
    int64_t v;
    if (check_status(tl_set_mode(TL_MODE_DEFAULT_DTYPE, TL_MODE_QUERY, &v)) < 0) {
        return -1;
    }
    current.default_dtype = (uint8_t)v;
    return check_status(tl_set_mode(TL_MODE_BUSY_WAIT, 1, &v)); /* turn.c decides whether a thread waits */
}
