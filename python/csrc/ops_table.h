/* Types of the operator table in ops_table.inc, which cmd/opgen writes.
 *
 * The table is data only: the argument parser (parser.c) compiles it once, at
 * import. Defaults stay Python literals ("None", "True", "1e-5", "'mean'",
 * "[1, 2]"); "" marks a required parameter. Grammar and flat encoding are those
 * of engine/op/sig.go. */
#ifndef TORCHLETTE_OPS_TABLE_H
#define TORCHLETTE_OPS_TABLE_H

#include <stdint.h>

/* Parameter types; the order is fixed. */
enum {
    TL_P_TENSOR = 0,
    TL_P_OPERAND,
    TL_P_INT,
    TL_P_BOOL,
    TL_P_FLOAT,
    TL_P_SCALAR,
    TL_P_DTYPE,
    TL_P_DEVICE,
    TL_P_STR
};

/* Modifiers of a parameter. */
enum { TL_P_LIST = 1, TL_P_OPT = 2, TL_P_SPREAD = 4, TL_P_KWONLY = 8 };

/* Where a name appears: op.Where. */
enum { TL_W_FUNCTION = 1, TL_W_METHOD = 2, TL_W_FUNCTIONAL = 4, TL_W_HIDDEN = 8, TL_W_LINALG = 16, TL_W_SPECIAL = 32,
    TL_W_FOURIER = 64 };

/* Forms of an operator. */
enum { TL_F_VIEW = 1, TL_F_INPLACE = 2, TL_F_INPLACE_ONLY = 4, TL_F_OUT = 8 };

typedef struct {
    const char *name;
    uint8_t type;             /* TL_P_TENSOR ... */
    uint8_t mods;             /* TL_P_LIST | ... */
    const char *dflt;         /* Python literal, "" when required */
    const char *const *words; /* TL_P_STR: NULL-terminated; else NULL */
} tl_param;

typedef struct {
    const char *name; /* "" when unnamed */
    uint8_t list;     /* Tensor[] */
} tl_result;

typedef struct {
    const char *name; /* "max" */
    const char *full; /* "max.dim" */
    const char *sig;  /* the whole signature, for messages */
    const char *doc;
    uint16_t id; /* op.OpID */
    uint8_t where;
    uint8_t flags;
    uint8_t nparams;
    uint8_t nresults;
    const tl_param *params;
    const tl_result *results;
    const char *const *aliases; /* NULL-terminated; NULL when none */
} tl_opdef;

/* ops_table.inc defines:
 *   static const tl_opdef tl_ops[];      in order of id
 *   static const int tl_nops;
 *   #define TL_OPS_HASH 0x...u           FNV-1a (32 bit) of all signatures joined by '\n',
 *                                        in order of id: tl_abi_ops() of the library must agree */
#endif
