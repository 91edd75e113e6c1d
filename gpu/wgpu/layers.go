package wgpu

import "os"

// withoutDisplay turns Mesa's implicit device-select layer off where no display server
// can be: the layer asks one for its GPU and complains on stderr when there is none. All it
// does is reorder the adapters, which gpu.Adapters does anyway.
func withoutDisplay() {
	if os.Getenv("XDG_RUNTIME_DIR") == "" && os.Getenv("NODEVICE_SELECT") == "" {
		os.Setenv("NODEVICE_SELECT", "1") // reaches the C library's environment too
	}
}
