/* The structs have the layout of dlpack.h 1.0. */
#include "dlpack.h"

#include "cpython.h"
#include "errors.h"
#include "memory.h"
#include "source_loc.h"
#include "tensor.h"
#include "torchlette.h"
#include "types.h"

enum { CPU_DEVICE = 1, CODE_INT = 0, CODE_UINT = 1, CODE_FLOAT = 2, CODE_BFLOAT = 4, CODE_COMPLEX = 5, CODE_BOOL = 6,
    READ_ONLY = 1, IS_COPIED = 2 };

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
    shared_memory m;
    if (l == NULL) {
        return PyErr_NoMemory();
    }
    if (memory_share(t, false, &m) < 0) {
        free(l);
        return NULL;
    }
    l->export_id = m.export_id;
    for (int i = 0; i < t->rank; i++) {
        l->shape[i] = t->shape[i];
        l->strides[i] = m.stride[i];
    }
    array a = {.data = m.data,
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
            .flags = copied ? IS_COPIED : 0,
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

/* The producer's struct, which a tensor's memory keeps through a capsule. */
static void delete_struct(PyObject *capsule) {
    const char *name = PyCapsule_GetName(capsule);
    if (strcmp(name, "managed") == 0) {
        managed *m = PyCapsule_GetPointer(capsule, name);
        if (m->deleter != NULL) {
            m->deleter(m);
        }
    } else {
        versioned *m = PyCapsule_GetPointer(capsule, name);
        if (m->deleter != NULL) {
            m->deleter(m);
        }
    }
}

/* A tensor over an array, whose struct belongs to owner. */
static PyObject *array_in(const array *a, PyObject *owner, bool read_only, uint8_t api) {
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
    int64_t stride[TL_MAX_RANK], step = 1;
    for (int i = a->ndim - 1; i >= 0; i--) {
        stride[i] = a->strides != NULL ? a->strides[i] : step;
        step *= a->shape[i];
        if (stride[i] < 0) {
            PyErr_Format(PyExc_BufferError,
                "from_dlpack: got stride %lld of dim %d, want none below 0: copy the array first", (long long)stride[i],
                i);
            return NULL;
        }
    }
    static char nothing[16]; /* PyTorch gives no address for an array without elements */
    char *data = a->data != NULL ? (char *)a->data + a->byte_offset : nothing;
    Py_buffer v = {.obj = Py_NewRef(owner), .buf = data, .readonly = read_only};
    return memory_tensor(&v, data, dtype, a->ndim, a->shape, stride, true, api);
}

/* Makes a tensor of a capsule's array. The struct moves to an owner, so that the capsule cannot be used again. */
static PyObject *take(PyObject *capsule, void *of, const array *a, const char *kind, const char *used, bool read_only,
    uint8_t api) {
    PyObject *owner = PyCapsule_New(of, kind, NULL);
    PyObject *t = owner != NULL ? array_in(a, owner, read_only, api) : NULL;
    if (t != NULL && PyCapsule_SetName(capsule, used) == 0) {
        PyCapsule_SetDestructor(owner, delete_struct);
    }
    Py_XDECREF(owner);
    return t;
}

/* _from_dlpack(capsule): a tensor over the memory of the capsule's array. The capsule cannot be used again. */
PyObject *py_from_dlpack(PyObject *self, PyObject *capsule) {
    uint8_t api = self == Py_True ? TL_API_TORCH : TL_API_CORE;
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        return take(capsule, m, &m->tensor, "managed", "used_dltensor", false, api);
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
    return take(capsule, m, &m->tensor, "versioned", "used_dltensor_versioned", (m->flags & READ_ONLY) != 0, api);
}
