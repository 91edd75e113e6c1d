package main

/*
#include <stdlib.h>
*/
import "C"

import "unsafe"

// getenv asks the C library: Go's own copy of the environment is that of the process's
// start, and Python programs set variables before they import the package.
func getenv(name string) string {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	return C.GoString(C.getenv(key))
}
