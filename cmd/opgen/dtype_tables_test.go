package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTablesOfDTypesFollowIR(t *testing.T) {
	out := dtypeTables(dtypeRows())
	for _, row := range []string{
		`{"bool", NULL, 1, KIND_BOOL, "?"},`,
		`{"int64", "long", 8, KIND_INT, "q"},`,
		`{"uint32", NULL, 4, KIND_UINT, "I"},`,
		`{"float16", "half", 2, KIND_FLOAT, "e"},`,
		`{"bfloat16", NULL, 2, KIND_BRAIN, NULL},`,
		`{"float64", "double", 8, KIND_FLOAT, "d"},`,
		`{"uint8", NULL, 1, KIND_UINT, "B"},`,
	} {
		assert.Contains(t, string(out[extensionTable]), row+"\n")
	}
	kernels := string(out[kernelTable])
	assert.Contains(t, kernels, "enum {\n\tTLK_BOOL = 1,\n\tTLK_I32 = 2,\n")
	assert.Contains(t, kernels, "\tTLK_U64 = 13,\n\tTLK_TYPES\n};\n")
	assert.Contains(t, kernels, "sizes[TLK_TYPES] = {0, 1, 4, 8, 4, 2, 2, 4, 8, 1, 1, 2, 2, 8};\n")
}
