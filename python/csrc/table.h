/* The table of operators, compiled at import: defaults are values, names are interned strings, and overloads are
 * grouped by their Python name. */
#ifndef TORCHLETTE_TABLE_H
#define TORCHLETTE_TABLE_H

#include "cpython.h"
#include "ops_table.h"

/* Kinds of default: param.dkind. */
enum { D_REQUIRED, D_NONE, D_BOOL, D_INT, D_FLOAT, D_LIST };

/* A parameter, compiled from tl_param. */
typedef struct {
    PyObject *name;     /* interned */
    PyObject *alias[4]; /* interned: names that NumPy users give, and "input" for self */
    const char *text;
    uint8_t type, mods;
    uint8_t dkind; /* the default: D_REQUIRED ... */
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
    int32_t nparams, npos; /* npos: without keyword-only ones */
    bool list_result;
    bool creates;              /* takes dtype and device, so also requires_grad, layout, pin_memory */
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

int table_init(void);
group *group_find(const char *name);        /* NULL when there is none */
group *group_at(int32_t i);                 /* in order of appearance; NULL after the last */
overload *overload_named(const char *full); /* NULL when there is none */
extern PyObject *return_types;              /* classes of named results, by the operator's name */

#endif
