package lower

import "github.com/torchlette/torchlette/ir"

// What tests of other packages need to register a primitive.
type (
	Kernel   = kernel
	Lowering = lowering
)

// Register registers lowerings.
func Register(rules map[string]Lowering) { register(rules) }

// Mapping lowers an elementwise primitive.
func Mapping(name string, f func(k *Kernel, t ir.DType, x []int) int) Lowering {
	return mapping(name, f)
}
