package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/ir"
)

// The row of docs/howto/add-a-dtype.md.
var uint64Row = ir.DTypeInfo{
	Name: "uint64", Scalar: "UInt64", C: "unsigned long", Short: "U64", Kind: 'u', Size: 8,
}

// One row reaches the enum of the CPU's kernels, the extension's table, Python's and the stub. cmd/abigen reads the
// same table for the enum of the C ABI.
func TestARowOfTheTableReachesEveryLanguage(t *testing.T) {
	table := slices.Insert(dtypeRows(), int(ir.NumStored)-1, uint64Row)
	out := dtypeTables(table)
	for path, line := range map[string]string{
		kernelTable:    "\n\tTLK_U16 = 12,\n\tTLK_U64 = 13,\n\tTLK_TYPES\n};",
		extensionTable: "\n{\"uint64\", NULL, 8, KIND_UINT, \"Q\"},\n",
		pythonTable:    "\n    _C.uint64: \"UInt64\",\n",
	} {
		assert.Contains(t, string(out[path]), line, path)
	}
	assert.Contains(t, string(out[pythonTable]), "\n    _C.uint64: \"u\",\n")
	assert.Contains(t, dtypeNames(table), "uint16: dtype\nuint64: dtype\n")

	out = dtypeTables(slices.Clip(dtypeRows()))
	assert.NotContains(t, string(out[pythonTable]), "uint64")
}
