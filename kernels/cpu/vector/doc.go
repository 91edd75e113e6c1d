// Package vector holds the vector instructions of the CPU device, in C.
//
// kern_base.c, kern_avx2_amd64.c and kern_avx512_amd64.c each compile kern_table.h for one instruction set; the other
// kern_*.c files hold the instructions that only one instruction set has. cpu.h declares their functions, which package
// cpu calls. They take nine tenths of the compile time of the device's C code. In a separate package they stay in the
// build cache when package cpu changes.
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
