package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// The row of docs/howto/add-a-dtype.md.
var uint16Row = ir.DTypeInfo{
	Name: "uint16", Scalar: "UInt16", C: "unsigned short", Short: "U16", Kind: 'u', Size: 2,
}

// One row reaches the enum of the C ABI, that of the CPU's kernels, the extension's table, Python's and the stub.
func TestARowOfTheTableReachesEveryLanguage(t *testing.T) {
	table := append(dtypeRows(), uint16Row)
	out, err := dtypeTables("../..", table)
	require.NoError(t, err)
	for path, line := range map[string]string{
		abiHeader:                "\n    TL_INT16 = 11,\n    TL_UINT16 = 12,\n};",
		cpuHeader:                " TL_I16, TL_U16, TL_TYPES };",
		"python/csrc/dtypes.inc": "\n{\"uint16\", NULL, 2},\n",
		pythonTable:              "\n    _C.uint16: \"UInt16\",\n",
	} {
		assert.Contains(t, string(out[path]), line, path)
	}
	assert.Contains(t, string(out[pythonTable]), "\n    _C.uint16: \"u\",\n")
	assert.Contains(t, dtypeNames(table), "int16: dtype\nshort: dtype\nuint16: dtype\n")

	out, err = dtypeTables("../..", slices.Clip(dtypeRows()))
	require.NoError(t, err)
	assert.NotContains(t, string(out[pythonTable]), "uint16")
}
