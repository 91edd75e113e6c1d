/* The compiled table: what table.c and parser.c share. */
#ifndef TORCHLETTE_TABLE_H
#define TORCHLETTE_TABLE_H

/* Kinds of default: param.dkind. */
enum { D_REQUIRED, D_NONE, D_BOOL, D_INT, D_FLOAT, D_LIST };

int table_init(void);
extern PyObject *return_types; /* classes of named results, by the operator's name */
group *group_at(int32_t i); /* in order of appearance; NULL after the last */

#endif
