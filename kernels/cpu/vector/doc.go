// Package vector holds the vector instructions of the CPU device, in C.
//
// kern_base.c, kern_avx2_amd64.c and kern_avx512_amd64.c each compile kern_table.h for one instruction set; the other
// kern_*.c files hold what one instruction set alone has. Package cpu declares and calls their functions: cpu.h
// is the interface. They are a package of their own because they take nine tenths of the time that the C of the device
// takes to compile: a change of package cpu leaves the compiled instructions in the build cache.
//
// vector imports nothing; kernels/cpu imports vector.
package vector

// The flags are those of package cpu.

/*
#cgo CFLAGS: -O3 -std=gnu11 -fno-strict-aliasing -Wall
#cgo linux CFLAGS: -fno-asynchronous-unwind-tables
#cgo LDFLAGS: -lm
*/
import "C"

import "embed"

// headers makes the text of the headers part of this package's object. The build cache knows the files of a package
// and the objects of its imports, so a change of cpu.h compiles package cpu again. The linker drops it.
//
//go:embed *.h
var headers embed.FS //nolint:unused // read by the build cache alone
