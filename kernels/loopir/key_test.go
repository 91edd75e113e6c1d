package loopir_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// changes calls f with each way in which one field, element or length below v can differ.
func changes(v reflect.Value, path string, f func(path string)) {
	try := func(other reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.Set(other)
		f(path)
		v.Set(old)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			changes(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			changes(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
		if v.Len() > 0 {
			try(v.Slice(0, v.Len()-1))
		}
	case reflect.Bool:
		try(reflect.ValueOf(!v.Bool()))
	case reflect.String:
		try(reflect.ValueOf(v.String() + "'"))
	default:
		one := reflect.ValueOf(1).Convert(v.Type())
		if v.CanInt() {
			try(reflect.ValueOf(v.Int() + one.Int()).Convert(v.Type()))
		} else {
			try(reflect.ValueOf(v.Uint() + one.Uint()).Convert(v.Type()))
		}
	}
}

func TestEveryFieldButTheNameIsPartOfTheKey(t *testing.T) {
	k := everything()
	seen := map[string]string{loopir.Key(k): "the kernel itself"}
	n := 0
	changes(reflect.ValueOf(k).Elem(), "", func(path string) {
		n++
		key := loopir.Key(k)
		if path == ".Name" {
			require.Equal(t, "the kernel itself", seen[key])
			return
		}
		require.NotContains(t, seen, key, "%s and %s have one key", path, seen[key])
		seen[key] = path
	})
	require.Greater(t, n, 150)
	require.Equal(t, "the kernel itself", seen[loopir.Key(everything())], "a kernel made again has the same key")
}

func TestEveryOperationHasAName(t *testing.T) {
	names := map[string]loopir.Op{}
	for op := range loopir.NumOps {
		require.NotEmpty(t, op.String())
		require.NotContains(t, names, op.String())
		names[op.String()] = op
	}
	require.Equal(t, "invalid", (loopir.NumOps + 3).String())
}
