package cpu

import (
	"slices"

	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// rerunnable reports a step that can run again after it was stopped midway: it reads nothing that it writes.
func rerunnable(s *device.Step) bool {
	for i, b := range s.Op.Buffers() {
		switch b.Access {
		case loopir.Read:
		case loopir.Write:
			if slices.Contains(s.Bufs[:i], s.Bufs[i]) || slices.Contains(s.Bufs[i+1:], s.Bufs[i]) {
				return false
			}
		default:
			return false
		}
	}
	k, ok := s.Op.(*loopir.Kernel)
	return !ok || !slices.ContainsFunc(k.Stages, func(st loopir.Stage) bool {
		return slices.ContainsFunc(st.Stores, func(r loopir.Store) bool { return r.Mode != loopir.Set })
	})
}
