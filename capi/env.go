package main

/*
#include <stdlib.h>
*/
import "C"

import "unsafe"

// getenv reads a variable from the C library. Go has a copy of the environment from the start of the process, and
// Python programs set variables before they import the package.
func getenv(name string) string {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	return C.GoString(C.getenv(key))
}
