/* The structs have the layout of dlpack.h 1.0. */
#include "dlpack.h"

#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "source_loc.h"
#include "tensor.h"
#include "tensor_read.h"
#include "torchlette.h"
#include "turn.h"
#include "types.h"

enum { CPU_DEVICE = 1, CODE_INT = 0, CODE_UINT = 1, CODE_FLOAT = 2, CODE_BFLOAT = 4, CODE_COMPLEX = 5, CODE_BOOL = 6, READ_ONLY = 1,
    IS_COPIED = 2 };

typedef struct {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* strides in elements; NULL: dense, row-major */
    uint64_t byte_offset;
} array;

typedef struct managed {
    array tensor;
    void *context;
    void (*deleter)(struct managed *);
} managed;

typedef struct versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct versioned *);
    uint64_t flags;
    array tensor;
} versioned;

static int type_code(uint8_t dtype) {
    static const uint8_t codes[] = {[KIND_BOOL] = CODE_BOOL,
        [KIND_UINT] = CODE_UINT,
        [KIND_INT] = CODE_INT,
        [KIND_FLOAT] = CODE_FLOAT,
        [KIND_BRAIN] = CODE_BFLOAT,
        [KIND_COMPLEX] = CODE_COMPLEX};
    return codes[dtype_kind(dtype)];
}

static int type_bits(uint8_t dtype) { return 8 * (int)dtype_size(dtype); }

/* Memory of a tensor that a consumer uses: the consumer's struct, and the engine's export, which keeps the memory
 * unchanged. */
typedef struct {
    union {
        managed old;
        versioned new;
    } u;
    uint64_t export_id;
    int64_t shape[TL_MAX_RANK], strides[TL_MAX_RANK];
} export_id;

/* The consumer calls this from any thread when it is done. */
static void end_loan(export_id *l) {
    tl_release_export(l->export_id);
    free(l);
}

static void delete_old(managed *m) { end_loan(m->context); }
static void delete_new(versioned *m) { end_loan(m->context); }

/* The destructor of a capsule. A capsule that no consumer took still owns its struct. */
static void drop_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        m->deleter(m);
    }
}

/* _to_dlpack(tensor, versioned, copied): a capsule over the tensor's memory on the CPU. */
PyObject *py_to_dlpack(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *tensor;
    int with_version, copied;
    if (!PyArg_ParseTuple(args, "O!pp:_to_dlpack", (PyObject *)TensorType, &tensor, &with_version, &copied)) {
        return NULL;
    }
    Tensor *t = (Tensor *)tensor;
    export_id *l = calloc(1, sizeof *l);
    void *data;
    if (l == NULL) {
        return PyErr_NoMemory();
    }
    int borrowed = turn_take(t->api);
    if (borrowed == 0) {
        borrowed = force_value(t->handle) < 0 ? -1 : check_status(tl_export_buffer(t->handle, &data, &l->export_id));
        turn_give();
    }
    if (borrowed < 0) {
        free(l);
        return NULL;
    }
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        l->shape[i] = t->shape[i];
        l->strides[i] = stride;
        stride *= t->shape[i] > 0 ? t->shape[i] : 1;
    }
    array a = {.data = data,
        .device = {CPU_DEVICE, 0},
        .ndim = t->rank,
        .dtype = {(uint8_t)type_code(t->dtype), (uint8_t)type_bits(t->dtype), 1},
        .shape = l->shape,
        .strides = l->strides};
    PyObject *capsule;
    if (with_version) {
        l->u.new = (versioned){.version = {1, 0},
            .context = l,
            .deleter = delete_new,
            .flags = copied ? IS_COPIED : READ_ONLY,
            .tensor = a};
        capsule = PyCapsule_New(&l->u.new, "dltensor_versioned", drop_capsule);
    } else {
        l->u.old = (managed){.tensor = a, .context = l, .deleter = delete_old};
        capsule = PyCapsule_New(&l->u.old, "dltensor", drop_capsule);
    }
    if (capsule == NULL) {
        end_loan(l);
    }
    return capsule;
}

PyObject *py_dlpack_address(PyObject *self, PyObject *capsule) {
    (void)self;
    const managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    return m != NULL ? PyLong_FromVoidPtr(m->tensor.data) : NULL;
}

/* Copies the elements of dims dim and up, of any strides, to dense memory. Returns the end of what it wrote. */
static char *densify(const array *a, int dim, const char *from, size_t width, char *to) {
    if (dim == a->ndim) {
        memcpy(to, from, width);
        return to + width;
    }
    int64_t stride = 1;
    if (a->strides != NULL) {
        stride = a->strides[dim];
    } else {
        for (int i = dim + 1; i < a->ndim; i++) {
            stride *= a->shape[i];
        }
    }
    for (int64_t i = 0; i < a->shape[dim]; i++) {
        to = densify(a, dim + 1, from + i * stride * (int64_t)width, width, to);
    }
    return to;
}

static PyObject *copy_in(const array *a, uint8_t api) {
    uint8_t dtype = 0;
    for (uint8_t d = 1; d < TL_NUM_DTYPES; d++) {
        if (type_code(d) == a->dtype.code && type_bits(d) == a->dtype.bits && a->dtype.lanes == 1) {
            dtype = d;
        }
    }
    if (dtype == 0) {
        return raise_text(TL_TYPE,
            "from_dlpack: no dtype for type code %d of %d bits: convert it to float32 or int64 first", a->dtype.code,
            a->dtype.bits);
    }
    if (a->device.type != CPU_DEVICE || a->ndim > TL_MAX_RANK) {
        PyErr_Format(PyExc_BufferError,
            "from_dlpack: got device type %d and %d dims, want memory of the CPU and at most %d dims", a->device.type,
            a->ndim, TL_MAX_RANK);
        return NULL;
    }
    size_t width = dtype_size(dtype), bytes = width;
    for (int i = 0; i < a->ndim; i++) {
        bytes *= (size_t)a->shape[i];
    }
    PyObject *block = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (block == NULL) {
        return NULL;
    }
    if (bytes > 0) {
        densify(a, 0, (const char *)a->data + a->byte_offset, width, PyBytes_AsString(block));
    }
    tl_out out;
    int32_t status = tl_from_data(
        dtype, TL_CPU, a->ndim, a->shape, PyBytes_AsString(block), bytes, 0, call_source_loc(), &out);
    Py_DECREF(block);
    return status != TL_OK ? raise_status(status) : tensor_wrap(&out, api);
}

/* _from_dlpack(capsule): a tensor with a copy of the capsule's array. The capsule cannot be used again. */
PyObject *py_from_dlpack(PyObject *self, PyObject *capsule) {
    uint8_t api = self == Py_True ? TL_API_TORCH : TL_API_CORE;
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        PyObject *t = copy_in(&m->tensor, api);
        if (t != NULL && PyCapsule_SetName(capsule, "used_dltensor") == 0 && m->deleter != NULL) {
            m->deleter(m);
        }
        return t;
    }
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        return raise_text(TL_RUNTIME,
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
            "once, so you might have already constructed a tensor from it once.");
    }
    versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m->version.major != 1) {
        PyErr_Format(PyExc_BufferError, "from_dlpack: got DLPack version %u, want 1", (unsigned)m->version.major);
        return NULL;
    }
    PyObject *t = copy_in(&m->tensor, api);
    if (t != NULL && PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0 && m->deleter != NULL) {
        m->deleter(m);
    }
    return t;
}
