package wgpu

import "os"

// withoutDisplay turns Mesa's implicit device-select layer off where there can be no display server. The layer asks a
// server for its GPU and complains on stderr where there is none. Its only effect is the order of adapters, which
// gpu.Adapters decides anyway.
func withoutDisplay() {
	if os.Getenv("XDG_RUNTIME_DIR") == "" && os.Getenv("NODEVICE_SELECT") == "" {
		os.Setenv("NODEVICE_SELECT", "1") // reaches the C library's environment too
	}
}
