package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A header whose enum misses a dtype is written anew; what surrounds the enum stays.
func TestDTypeEnumsFollowTheTable(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{abiHeader, cpuHeader} {
		path = filepath.Join(dir, filepath.FromSlash(path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("// before\nenum { TL_BOOL = 1, TL_OLD };\nenum { TL_CPU };\n"), 0o644))
	}
	out, err := dtypeTables(dir, dtypeRows())
	require.NoError(t, err)
	assert.Equal(t, "// before\nenum { TL_BOOL = 1, TL_I32, TL_I64, TL_U32, TL_F16, TL_BF16, TL_F32, TL_F64, "+
		"TL_U8, TL_I8, "+
		"TL_I16, TL_TYPES };\nenum { TL_CPU };\n", string(out[cpuHeader]))
	assert.Contains(t, string(out[abiHeader]), "    TL_BFLOAT16 = 6,\n")
	assert.NotContains(t, string(out[abiHeader]), "TL_OLD")
	assert.Contains(t, string(out["python/csrc/dtypes.inc"]), "{\"int64\", \"long\", 8},\n")

	require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(cpuHeader)), []byte("enum {};"), 0o644))
	_, err = dtypeTables(dir, dtypeRows())
	assert.ErrorContains(t, err, "no enum of dtypes")
}
