package device

import "unsafe"

// Window is a buffer over host memory that somebody else owns.
type Window interface {
	Mapped
	// Set makes the buffer stand for n bytes from p on. They stay valid until the next Set.
	Set(p unsafe.Pointer, n int64)
}

// Host is a device that works in host memory, so that programs read and write memory of others in place, and parts of a
// buffer serve as buffers.
type Host interface {
	Device
	// NewWindow returns a buffer over no memory.
	NewWindow() Window
	// Pack copies constant operands of p's products into the order in which its kernels read them. constant has the
	// slots whose buffers, and bind.Offsets, are the same in all runs. Packs live as long as the device, and programs
	// share them. bytes is the memory of the new ones.
	Pack(p Program, bind *Binding, constant []bool) (bytes int64, err error)
}
