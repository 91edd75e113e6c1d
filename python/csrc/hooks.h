/* The table of hooks: the Python functions behind the numbers that the engine knows.
 *
 * A hook lives as long as the step of the tape that it is on, which may outlive the Python object of its tensor. While
 * that object alone keeps the step, the hook goes with it. Then, and only then, the object shows the function to the
 * cyclic collector, so that a function that holds its own tensor is collected with it. The table holds capsules, which
 * the collector does not look into: each function is shown by one object at most. */
#ifndef TORCHLETTE_HOOKS_H
#define TORCHLETTE_HOOKS_H

#include "cpython.h"

/* The hooks that were added through one tensor object. */
typedef struct {
    struct hook *first;
} hook_list;

int hooks_init(void);
bool hooks_exist(void);
int forget_hooks(void); /* drops the functions of hooks whose steps are gone */

int hook_remember(uint64_t id, PyObject *function, hook_list *owner); /* owner: NULL when no object owns it */
int hook_replace(uint64_t id, PyObject *function);                    /* nothing happens when there is no such hook */
int hook_forget(uint64_t id);         /* 1: forgotten; 0: there was none; -1: an error */
PyObject *hook_function(uint64_t id); /* borrowed; NULL when it was removed, or with an exception */

void swap_hooks(hook_list *a, hook_list *b);

/* handle: of the tensor whose list it is. */
bool owns_hook(uint64_t handle, uint64_t id); /* whether the tensor alone keeps the step of the hook */
int visit_hooks(const hook_list *l, uint64_t handle, visitproc visit, void *arg);
void clear_hooks(hook_list *l, uint64_t handle); /* drops the hooks that go with the tensor */
void disown_hooks(hook_list *l); /* the tensor is going; its hooks stay while the engine may call them */

#endif
