package main

/*
#include <stdlib.h>
*/
import "C"

import "unsafe"

// getenv reads a variable from the C library. Go's copy of the environment is made when the process starts, so it lacks
// variables that a Python program sets before it imports the package.
func getenv(name string) string {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	return C.GoString(C.getenv(key))
}
