package main

import (
	"github.com/torchlette/torchlette/engine"
	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/interp"
)

func init() {
	engine.Configure(engine.Config{Open: openDevice})
}

// openDevice opens a device when it is first named.
func openDevice(id ir.DeviceID) (device.Device, error) {
	if id == ir.CPU {
		return interp.New(), nil
	}
	return nil, ir.Errorf(ir.ErrRuntime, "no such device")
}
