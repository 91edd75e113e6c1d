#include "host_data.h"

#include "cpython.h"
#include "element.h"
#include "errors.h"
#include "flush.h"
#include "source_loc.h"
#include "tensor.h"
#include "torchlette.h"
#include "types.h"

PyObject *host_tensor(host_options o, int rank, const int64_t *shape, const void *data, size_t bytes) {
    if (o.requires_grad && !dtype_has_gradients(o.dtype)) {
        return raise_text(TL_RUNTIME, "Only Tensors of floating point and complex dtype can require gradients");
    }
    tl_out out;
    int32_t status = tl_from_data(
        o.dtype, o.device, rank, shape, data, bytes, o.requires_grad ? TL_REQUIRES_GRAD : 0, call_source_loc(), &out);
    return status != TL_OK ? raise_status(status) : tensor_wrap(&out, o.api == TL_API_CORE ? creation_api() : o.api);
}

PyObject *scalar_tensor(PyObject *o, uint8_t dtype, uint8_t device, uint8_t api) {
    py_number n;
    char v[MAX_ELEMENT];
    if (number_from(o, &n) != 1 || element_store(dtype, v, &n) < 0) {
        return PyErr_Occurred() ? NULL : raise_text(TL_TYPE, "expected a number, got %R", (PyObject *)Py_TYPE(o));
    }
    return host_tensor((host_options){.dtype = dtype, .device = device, .api = api}, 0, NULL, v, dtype_size(dtype));
}
