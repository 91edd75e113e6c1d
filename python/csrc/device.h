/* torch.device, and what torchlette.torch calls devices. */
#ifndef TORCHLETTE_DEVICE_H
#define TORCHLETTE_DEVICE_H

#include "cpython.h"

extern PyTypeObject *DeviceType;

int device_type_init(PyObject *module);
PyObject *device_object(uint8_t id);
/* The device of a tensor of an API flavour: torchlette.torch calls the GPUs that torch.cuda counts "cuda". */
PyObject *device_called(uint8_t id, uint8_t api);
int device_is_cuda(uint8_t id, uint8_t api); /* -1: an error */
int device_in_environment(void);             /* whether TORCHLETTE_DEVICE names the default device; -1: an error */
extern PyMethodDef device_functions[];
int device_from(PyObject *o, uint8_t *id); /* 1: found; 0: not a device; -1: an error */

#endif
