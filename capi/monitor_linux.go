package main

// See monitor_linux.c.

// #cgo LDFLAGS: -Wl,--wrap=pthread_create
import "C"
