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

// SetWinogradLeast sets the least number of operations of a convolution by tiles.
func SetWinogradLeast(operations int64) (restore func()) {
	old := winogradLeast
	winogradLeast = operations
	return func() { winogradLeast = old }
}

// SetWinogradBytes sets the bytes of a chunk of a convolution by tiles.
func SetWinogradBytes(bytes int64) (restore func()) {
	old := winogradBytes
	winogradBytes = bytes
	return func() { winogradBytes = old }
}

// SetFramedRow sets the shortest row around which only the border is written.
func SetFramedRow(elements int64) (restore func()) {
	old := framedRow
	framedRow = elements
	return func() { framedRow = old }
}
