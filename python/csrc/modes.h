/* Modes as Python sets them. */
#ifndef TORCHLETTE_MODES_H
#define TORCHLETTE_MODES_H

#include "cpython.h"

int modes_init(void);
int set_mode(int32_t mode, int64_t value, int64_t *old);
int default_device_id(uint8_t *id);
extern PyMethodDef mode_functions[];

#endif
