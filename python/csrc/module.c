/* torchlette._C: the module. */
#include "autograd.h"
#include "call.h"
#include "captured.h"
#include "bindings.h"
#include "coercion.h"
#include "cpython.h"
#include "data.h"
#include "device.h"
#include "dlpack.h"
#include "engine.h"
#include "errors.h"
#include "hooks.h"
#include "index.h"
#include "memory.h"
#include "modes.h"
#include "nnmodule.h"
#include "number.h"
#include "numbers.h"
#include "overrides.h"
#include "process.h"
#include "program.h"
#include "saved_tensors.h"
#include "session.h"
#include "source_loc.h"
#include "table.h"
#include "tensor_read.h"
#include "tensor_type.h"
#include "threads.h"
#include "torchlette.h"
#include "types.h"

static PyObject *py_where(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    return PyLong_FromUnsignedLong(call_source_loc());
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

static PyObject *py_called_from_facade(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    return PyBool_FromLong(creation_api() == TL_API_TORCH);
}

static PyObject *py_in_facade(PyObject *self, PyObject *globals) {
    (void)self;
    if (!PyDict_Check(globals)) {
        return raise_text(TL_TYPE, "_in_facade(): argument must be dict");
    }
    return PyBool_FromLong(globals_in_facade(globals));
}

static PyObject *py_coercion_error(PyObject *self, PyObject *what) {
    (void)self;
    PyObject *text = coercion_text(what);
    PyObject *e = text != NULL ? PyObject_CallFunctionObjArgs(error_class(TL_HOST_COERCION), text, NULL) : NULL;
    Py_XDECREF(text);
    return e;
}

static PyMethodDef functions[] = {
    {"_called_from_facade", py_called_from_facade, METH_NOARGS,
        "Whether the code that called this package imported torchlette.torch."},
    {"_in_facade", py_in_facade, METH_O, "Whether the module with these globals imported torchlette.torch."},
    {"_set_facade_everywhere", py_set_facade_everywhere, METH_O,
        "Let all code of the process count as if it had imported torchlette.torch."},
    {"_coercion_error", py_coercion_error, METH_O, "The error of a silent conversion to a Python number."},
    {"_put_at", py_put_at, METH_VARARGS, "Write, or add, values at indices; gives the tensor."},
    {"_nonzero", py_nonzero, METH_O, "Indices of the true elements, one tensor for each dimension."},
    {"_to_dlpack", py_to_dlpack, METH_VARARGS, "A DLPack capsule over a tensor's memory on the CPU."},
    {"_address", py_address, METH_O, "The address of a buffer."},
    {"_data_ptr", py_data_ptr, METH_O, "The address of a tensor's memory, for as long as the storage lives."},
    {"_tobytes", py_tobytes, METH_O, "The elements, dense and row-major."},
    {"_site", py_where, METH_NOARGS, "The source location of the line that runs."},
    {"_site_string", py_site_string, METH_O, "The text of a call site."},
    {"_set_package", set_package, METH_O,
        "Name the folder whose code is the library's own: call sites are those of its callers."},
    {"_set_errors", py_set_errors, METH_O, "Register the error classes by code."},
    {0},
};

/* Functions that make tensors, or tell where. The module has them with None as self, _facade with True: then their
 * tensors follow PyTorch's rules of coercion. */
static PyMethodDef makers[] = {
    {"tensor", WITH_KEYWORDS(py_tensor), KEYWORDS,
        "tensor(data, *, dtype=None, device=None, requires_grad=False)\n--\n\nA tensor with a copy of data."},
    {"as_tensor", WITH_KEYWORDS(py_as_tensor), KEYWORDS,
        "as_tensor(data, dtype=None, device=None)\n--\n\ndata itself if it is such a tensor, else a copy as a tensor."},
    {"asarray", WITH_KEYWORDS(py_asarray), KEYWORDS,
        "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None)\n--\n\n"
        "obj as a tensor: without copy of its memory where copy is False, with one where it is True."},
    {"from_numpy", py_from_numpy, METH_O, "from_numpy(ndarray)\n--\n\nA tensor over the memory of an array."},
    {"_from_memory", py_from_memory, METH_VARARGS, "A tensor over a buffer: buffer, dtype, shape, strides, offset."},
    {"_frombytes", py_frombytes, METH_VARARGS, "A tensor from bytes, dtype, shape and device."},
    {"get_default_device", py_get_default_device, METH_NOARGS,
        "get_default_device()\n--\n\nThe device of tensors made without one."},
    {"_from_dlpack", py_from_dlpack, METH_O, "A tensor over the memory of a DLPack capsule's array."},
    {0},
};

static int add_makers(PyObject *module) {
    PyObject *facade = PyObject_GetAttrString(module, "_facade");
    PyObject *names[2] = {PyUnicode_FromString("torchlette"), PyUnicode_FromString("torchlette.torch")};
    if (facade == NULL || names[0] == NULL || names[1] == NULL) {
        return -1;
    }
    for (PyMethodDef *d = makers; d->ml_name != NULL; d++) {
        PyObject *core = PyCFunction_NewEx(d, Py_None, names[0]);
        PyObject *torch = PyCFunction_NewEx(d, Py_True, names[1]);
        int failed = core == NULL || torch == NULL || PyObject_SetAttrString(module, d->ml_name, core) < 0 ||
            PyDict_SetItemString(facade, d->ml_name, torch) < 0;
        Py_XDECREF(core);
        Py_XDECREF(torch);
        if (failed) {
            return -1;
        }
    }
    Py_DECREF(names[0]);
    Py_DECREF(names[1]);
    Py_DECREF(facade);
    return 0;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "torchlette._C",
    .m_doc = "The tensor type and the operators, over the engine's C ABI.",
    .m_size = -1,
    .m_methods = functions,
};

static int add_functions(PyObject *module) {
    PyMethodDef *const tables[] = {
        mode_functions, call_functions,     engine_functions, autograd_functions,
        captured_functions, guard_functions, device_functions, hook_functions, numbers_functions, overrides_functions,
        program_functions, session_functions};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (PyModule_AddFunctions(module, tables[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

PyMODINIT_FUNC PyInit__C(void) {
    if (tl_abi_version() != TL_ABI_VERSION) {
        return PyErr_Format(PyExc_ImportError, "torchlette: libtorchlette has ABI version %lu, _C wants %lu",
            (unsigned long)tl_abi_version(), (unsigned long)TL_ABI_VERSION);
    }
    process.engine = tl_watch_engine();
    __atomic_store_n(&process.engine->defer, 1, __ATOMIC_RELAXED);
    PyObject *m = PyModule_Create(&definition);
    if (m == NULL || threads_init() < 0 || add_functions(m) < 0 || hooks_init() < 0 || types_init(m) < 0 ||
        table_init() < 0 || tensor_type_init(m) < 0 || number_init() < 0 || bindings_init(m) < 0 || add_makers(m) < 0 ||
        modes_init() < 0 || nnmodule_init(m) < 0 || overrides_init(m) < 0) {
        Py_XDECREF(m);
        return NULL;
    }
    return m;
}
