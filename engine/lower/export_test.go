package lower

import "github.com/torchlette/torchlette/ir"

// What the entry of a primitive of another package's test needs.
type (
	Kernel   = kernel
	Lowering = lowering
)

// Register enters lowerings.
func Register(rules map[string]Lowering) { register(rules) }

// Mapping lowers an elementwise primitive.
func Mapping(name string, f func(k *Kernel, t ir.DType, x []int) int) Lowering {
	return mapping(name, f)
}
