#include "table.h"

#include "cpython.h"
#include "hash.h"
#include "ops_table.h"
#include "torchlette.h"
#include "types.h"

#include "ops_table.inc"
static overload *overloads;
static group *groups;
static int32_t n_groups;

static int default_list(param *p, const char *s) {
    p->dkind = D_LIST;
    while (*s != 0 && *s != ']') {
        char *end;
        long long v = strtoll(s, &end, 10);
        if (end == s) {
            s++;
            continue;
        }
        if (p->dlen == (int32_t)(sizeof p->dlist / sizeof *p->dlist)) {
            return -1;
        }
        p->dlist[p->dlen++] = v;
        s = end;
    }
    return 0;
}

static int default_word(param *p, const char *s) {
    size_t n = strlen(s);
    if (n >= 2 && (*s == '\'' || *s == '"')) {
        s++;
        n -= 2;
    }
    for (int i = 0; p->words[i] != NULL; i++) {
        if (strlen(p->words[i]) == n && strncmp(p->words[i], s, n) == 0) {
            p->dkind = D_INT;
            p->dint = i;
            return 0;
        }
    }
    return -1;
}

/* Reads a default, which the table has as a Python literal. */
static int compile_default(param *p, const char *s) {
    if (*s == 0) {
        p->dkind = D_REQUIRED;
        return 0;
    }
    if (strcmp(s, "None") == 0) {
        p->dkind = D_NONE;
        return 0;
    }
    if (p->type == TL_P_STR) {
        return default_word(p, s);
    }
    if (*s == '[' || *s == '(') {
        return default_list(p, s + 1);
    }
    if (strcmp(s, "True") == 0 || strcmp(s, "False") == 0) {
        p->dkind = D_BOOL;
        p->dint = *s == 'T';
        p->dfloat = (double)p->dint;
        return 0;
    }
    if (p->type == TL_P_DTYPE) {
        for (uint8_t id = 1; id < TL_NUM_DTYPES; id++) {
            const char *name = strncmp(s, "torch.", 6) == 0 ? s + 6 : s;
            if (strcmp(name, dtype_name(id)) == 0 || (id == TL_INT64 && strcmp(name, "long") == 0)) {
                p->dkind = D_INT;
                p->dint = id;
                return 0;
            }
        }
        return -1;
    }
    char *end;
    p->dfloat = strtod(s, &end);
    if (end == s || *end != 0) {
        return -1;
    }
    bool integer = strpbrk(s, ".eEin") == NULL; /* i and n: inf and nan are floats too */
    p->dkind = integer ? D_INT : D_FLOAT;
    if (integer) {
        p->dint = strtoll(s, NULL, 10);
    }
    return 0;
}

/* A parameter's name, then the names of NumPy that PyTorch takes for it. */
static const char *const numpy_names[][4] = {
    {"dim", "axis", NULL, NULL},
    {"split_size", "split_size_or_sections", NULL, NULL}, /* torch.split has the first name, the method the second */
    {"keepdim", "keepdims", NULL, NULL},
    {"self", "input", "x", "a"},
    {"input", "x", "a", "x1"},
    {"other", "x2", NULL, NULL},
};

static int compile_names(param *p, const char *name) {
    p->text = name;
    p->name = PyUnicode_InternFromString(name);
    if (p->name == NULL) {
        return -1;
    }
    for (size_t i = 0; i < sizeof numpy_names / sizeof *numpy_names; i++) {
        if (strcmp(numpy_names[i][0], name) != 0) {
            continue;
        }
        for (int k = 1; k < 4 && numpy_names[i][k] != NULL; k++) {
            p->alias[k - 1] = PyUnicode_InternFromString(numpy_names[i][k]);
            if (p->alias[k - 1] == NULL) {
                return -1;
            }
        }
    }
    return 0;
}

PyObject *return_types;

static int compile_results(overload *o) {
    const tl_opdef *d = o->def;
    o->list_result = d->nresults > 0 && d->results[0].list;
    if (d->nresults < 2 || d->results[0].name[0] == 0) {
        return 0;
    }
    PyStructSequence_Field *fields = PyMem_Calloc((size_t)d->nresults + 1, sizeof *fields);
    char *name = PyMem_Malloc(strlen(d->name) + 32);
    if (fields == NULL || name == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < d->nresults; i++) {
        fields[i].name = d->results[i].name;
    }
    sprintf(name, "torch.return_types.%s", d->name);
    PyStructSequence_Desc desc = {.name = name, .doc = d->doc, .fields = fields, .n_in_sequence = d->nresults};
    o->result_type = PyStructSequence_NewType(&desc); /* the class keeps pointers to name and fields */
    return o->result_type != NULL ? PyDict_SetItemString(return_types, d->name, (PyObject *)o->result_type) : -1;
}

static int compile(overload *o, const tl_opdef *d) {
    bool dtype = false, device = false;
    o->def = d;
    o->nparams = d->nparams;
    o->npos = d->nparams;
    o->params = PyMem_Calloc((size_t)d->nparams + 1, sizeof *o->params);
    if (o->params == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < d->nparams; i++) {
        param *p = &o->params[i];
        p->type = d->params[i].type;
        p->mods = d->params[i].mods;
        p->words = d->params[i].words;
        if (compile_names(p, d->params[i].name) < 0) {
            return -1;
        }
        if (compile_default(p, d->params[i].dflt) < 0) {
            PyErr_Format(PyExc_SystemError, "BUG: default %s of %s", d->params[i].dflt, d->sig);
            return -1;
        }
        if ((p->mods & TL_P_KWONLY) != 0 && i < o->npos) {
            o->npos = i;
        }
        dtype = dtype || p->type == TL_P_DTYPE;
        device = device || p->type == TL_P_DEVICE;
    }
    o->creates = dtype && device;
    return compile_results(o);
}

/* A hash table of group names with open addressing: numbers of groups, counted from 1; 0 in an empty bucket. */
enum { BUCKETS = 4096 };

static int16_t buckets[BUCKETS];

static int16_t *bucket_of(const char *name) {
    uint32_t i = hash_text(name) % BUCKETS;
    while (buckets[i] != 0 && strcmp(groups[buckets[i] - 1].name, name) != 0) {
        i = (i + 1) % BUCKETS;
    }
    return &buckets[i];
}

group *group_find(const char *name) {
    int16_t *b = bucket_of(name);
    return *b != 0 ? &groups[*b - 1] : NULL;
}

overload *overload_named(const char *full) {
    for (int i = 0; i < tl_nops; i++) {
        if (strcmp(tl_ops[i].full, full) == 0) {
            return &overloads[i];
        }
    }
    return NULL;
}

group *group_at(int32_t i) { return i < n_groups ? &groups[i] : NULL; }

static int add_to_group(const char *name, overload *o, uint8_t mode) {
    int16_t *b = bucket_of(name);
    if (*b == 0) {
        groups[n_groups].name = name;
        groups[n_groups].mode = mode;
        *b = (int16_t)++n_groups;
    }
    group *g = &groups[*b - 1];
    overload **grown = PyMem_Realloc(g->overloads, ((size_t)g->n + 1) * sizeof *grown);
    if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    g->overloads = grown;
    g->overloads[g->n++] = o;
    g->where |= o->def->where;
    return 0;
}

/* The name with "_" appended, in memory that is never freed. */
static const char *in_place_name(const char *name) {
    char *s = PyMem_Malloc(strlen(name) + 2);
    if (s == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    sprintf(s, "%s_", name);
    return s;
}

static int add_names(overload *o, const char *name) {
    uint8_t flags = o->def->flags;
    if ((flags & TL_F_INPLACE_ONLY) != 0) {
        return add_to_group(name, o, TL_IN_PLACE);
    }
    if (add_to_group(name, o, TL_FUNCTIONAL) < 0) {
        return -1;
    }
    if ((flags & TL_F_INPLACE) != 0) {
        const char *in_place = in_place_name(name);
        return in_place != NULL ? add_to_group(in_place, o, TL_IN_PLACE) : -1;
    }
    return 0;
}

int table_init(void) {
    if (tl_ops_hash() != TL_OPS_HASH) {
        PyErr_Format(PyExc_ImportError,
            "torchlette: _C and libtorchlette come from different builds: operators %x and %x", (unsigned)TL_OPS_HASH,
            (unsigned)tl_ops_hash());
        return -1;
    }
    size_t names = 0;
    for (int i = 0; i < tl_nops; i++) {
        names += 2;
        for (int k = 0; tl_ops[i].aliases != NULL && tl_ops[i].aliases[k] != NULL; k++) {
            names += 2;
        }
    }
    return_types = PyDict_New();
    overloads = PyMem_Calloc((size_t)tl_nops + 1, sizeof *overloads);
    groups = PyMem_Calloc(names + 1, sizeof *groups);
    if (overloads == NULL || groups == NULL || return_types == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < tl_nops; i++) {
        const tl_opdef *d = &tl_ops[i];
        if (compile(&overloads[i], d) < 0 || add_names(&overloads[i], d->name) < 0) {
            return -1;
        }
        for (int k = 0; d->aliases != NULL && d->aliases[k] != NULL; k++) {
            if (add_names(&overloads[i], d->aliases[k]) < 0) {
                return -1;
            }
        }
    }
    return 0;
}
