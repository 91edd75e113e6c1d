/* Modes as Python sets them. */
#ifndef TORCHLETTE_MODES_H
#define TORCHLETTE_MODES_H

#include "cpython.h"

int modes_init(void);
int set_mode(int32_t mode, int64_t value, int64_t *old);
/* The device of tensors that are made without one: that of set_default_device, else the flavour's own. The first tells
 * the engine, which a call without tensors needs. */
int use_default_device(uint8_t api);
int default_device_id(uint8_t api, uint8_t *id);
PyObject *py_get_default_device(PyObject *self, PyObject *ignored); /* self: True in torchlette.torch */
/* A compiled function begins, with mark in a region; gives the state for compiled_left at its end, which gives the
 * state that it leaves. */
PyObject *compiled_entered(bool mark, bool refuse);
PyObject *compiled_left(PyObject *state);
extern PyMethodDef mode_functions[];

#endif
