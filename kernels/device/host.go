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
	// Pack copies constant operands of p's products into the order in which its kernels read them. Their elements, and
	// bind.Offsets, are the same in all runs. Packs live as long as the device, and programs share them.
	Pack(p Program, bind *Binding, constants Constants) error
	// Packed is the memory of all packs.
	Packed() int64
	// ReturnUnused gives the system memory that nothing uses.
	ReturnUnused()
}

// Constants are the slots of a program that are constant. Few of them need to be in memory at one time.
type Constants interface {
	// Key names the elements of a slot's constant among those of all programs of a device; "" for other slots.
	Key(slot int) string
	// Load returns the memory of a slot's constant.
	Load(slot int) (Buffer, error)
	// Replaced notes that an operand of a step is read from a pack. A constant of replaced operands needs no memory.
	Replaced(slot int)
}
