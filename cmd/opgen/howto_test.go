package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/ir"
)

// The row of docs/howto/add-a-dtype.md.
var uint16Row = ir.DTypeInfo{
	Name: "uint16", Scalar: "UInt16", C: "unsigned short", Short: "U16", Kind: 'u', Size: 2,
}

// One row reaches the enum of the CPU's kernels, the extension's table, Python's and the stub. cmd/abigen reads the
// same table for the enum of the C ABI.
func TestARowOfTheTableReachesEveryLanguage(t *testing.T) {
	table := slices.Insert(dtypeRows(), int(ir.NumStored)-1, uint16Row)
	out := dtypeTables(table)
	for path, line := range map[string]string{
		kernelTable:    "\n\tTLK_I16 = 11,\n\tTLK_U16 = 12,\n\tTLK_TYPES\n};",
		extensionTable: "\n{\"uint16\", NULL, 2, KIND_UINT, \"H\"},\n",
		pythonTable:    "\n    _C.uint16: \"UInt16\",\n",
	} {
		assert.Contains(t, string(out[path]), line, path)
	}
	assert.Contains(t, string(out[pythonTable]), "\n    _C.uint16: \"u\",\n")
	assert.Contains(t, dtypeNames(table), "int16: dtype\nshort: dtype\nuint16: dtype\n")

	out = dtypeTables(slices.Clip(dtypeRows()))
	assert.NotContains(t, string(out[pythonTable]), "uint16")
}
