/* dtype and Size: small immutable objects, and the facts of dtypes. */
#ifndef TORCHLETTE_TYPES_H
#define TORCHLETTE_TYPES_H

#include "cpython.h"
#include "torchlette.h"

extern PyTypeObject *DtypeType, *SizeType;

int types_init(PyObject *module);

/* Facts of dtypes, from the generated table. Ids are those of torchlette.h; 0 stands for no dtype. */
enum dtype_kind { KIND_NONE, KIND_BOOL, KIND_UINT, KIND_INT, KIND_FLOAT, KIND_BRAIN, KIND_COMPLEX };
const char *dtype_name(uint8_t id);
size_t dtype_size(uint8_t id);
enum dtype_kind dtype_kind(uint8_t id);
const char *dtype_format(uint8_t id); /* of the struct module, and NumPy's Zf and Zd; NULL when it has none */
bool dtype_is_float(uint8_t id);
bool dtype_is_int(uint8_t id);
bool dtype_is_complex(uint8_t id);
bool dtype_has_gradients(uint8_t id); /* a float or a complex number */

PyObject *dtype_object(uint8_t id);
/* Takes dtype objects and float, int, bool, complex. 1: found; 0: not a dtype; -1: a dtype that no tensor here has. */
int dtype_from(PyObject *o, uint8_t *id);

PyObject *size_from(const int64_t *v, Py_ssize_t n);

#endif
