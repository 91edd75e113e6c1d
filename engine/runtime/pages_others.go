//go:build !linux

package runtime

// dropMapped leaves the pages to the system, which takes them out of memory when it needs it.
func dropMapped([]byte) {}
