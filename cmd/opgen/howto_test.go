package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/ir"
)

// The row of docs/howto/add-a-dtype.md.
var float8Row = ir.DTypeInfo{
	Name: "float8_e5m2", Scalar: "Float8_e5m2", C: "c10::Float8_e5m2", Short: "F8_E5M2", Kind: 'f', Size: 1, Mantissa: 2,
}

// One row reaches the enum of the CPU's kernels, the extension's table, Python's and the stub. cmd/abigen reads the
// same table for the enum of the C ABI.
func TestARowOfTheTableReachesEveryLanguage(t *testing.T) {
	table := slices.Insert(dtypeRows(), int(ir.NumStored)-1, float8Row)
	out := dtypeTables(table)
	for path, line := range map[string]string{
		kernelTable:    "\n\tTLK_U64 = 13,\n\tTLK_F8_E5M2 = 14,\n\tTLK_TYPES\n};",
		extensionTable: "\n{\"float8_e5m2\", NULL, 1, KIND_FLOAT, NULL},\n",
		pythonTable:    "\n    _C.float8_e5m2: \"Float8_e5m2\",\n",
	} {
		assert.Contains(t, string(out[path]), line, path)
	}
	assert.Contains(t, string(out[pythonTable]), "\n    _C.float8_e5m2: \"f\",\n")
	assert.Contains(t, dtypeNames(table), "uint64: dtype\nfloat8_e5m2: dtype\n")

	out = dtypeTables(slices.Clip(dtypeRows()))
	assert.NotContains(t, string(out[pythonTable]), "float8_e5m2")
}
