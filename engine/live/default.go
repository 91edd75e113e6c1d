package live

import "github.com/torchlette/torchlette/engine/ir"

// DefaultDevice implements op.Builder.
func (s *State) DefaultDevice() ir.DeviceID { return s.DefaultDev }
