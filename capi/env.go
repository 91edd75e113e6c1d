package main

/*
#include <stdlib.h>
*/
import "C"

import "unsafe"

// getenv reads a variable from the C library. Go copies the environment when the process starts, and Python programs
// set variables later, before they import the package.
func getenv(name string) string {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	return C.GoString(C.getenv(key))
}
