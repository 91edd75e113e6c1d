package wgpu

import "os"

// withoutDisplay turns off Mesa's device-select layer if there can be no display server. The layer asks the server for
// its GPU, and complains on stderr if there is none. It affects only the order of adapters, and gpu.Adapters sorts
// these anyway.
func withoutDisplay() {
	if os.Getenv("XDG_RUNTIME_DIR") == "" && os.Getenv("NODEVICE_SELECT") == "" {
		os.Setenv("NODEVICE_SELECT", "1") // reaches the C library's environment too
	}
}
