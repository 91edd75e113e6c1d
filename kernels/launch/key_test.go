package launch_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
)

// A field that changes the code must change the key: another field of a launch is found by reflection.
func TestEveryFieldOfALaunchIsPartOfItsKey(t *testing.T) {
	for _, op := range []launch.Op{
		&launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, &launch.Attention{Type: ir.F32}, &launch.Sort{Type: ir.F32},
		&launch.Factor{Type: ir.F32}, &launch.FactorBlock{},
	} {
		t.Run(fmt.Sprintf("%T", op), func(t *testing.T) {
			seen := map[string]string{op.Key(): "none"}
			try := func(field string, v reflect.Value, other any) {
				old := reflect.New(v.Type()).Elem()
				old.Set(v)
				v.Set(reflect.ValueOf(other).Convert(v.Type()))
				require.NotContains(t, seen, op.Key(), "changes of %s and %s", field, seen[op.Key()])
				seen[op.Key()] = field
				v.Set(old)
			}
			launchType := reflect.ValueOf(op).Elem()
			for i := range launchType.NumField() {
				v, name := launchType.Field(i), launchType.Type().Field(i).Name
				switch v.Kind() {
				case reflect.Bool:
					try(name, v, true)
				case reflect.Array:
					for j := range v.Len() {
						try(fmt.Sprintf("%s[%d]", name, j), v.Index(j), true)
					}
				case reflect.String:
					try(name, v, "n")
				case reflect.Pointer: // an epilogue
					try(name, v, kerneltest.Epilogue(ir.F32, 1, false))
					try(name+" with an operand", v, kerneltest.Epilogue(ir.F32, 1, true))
				default:
					n := v.Convert(reflect.TypeFor[int]()).Int()
					try(name, v, int(n+1))
				}
			}
		})
	}
}

// Launches that were made twice from the same attributes share code: a pointer is no part of the key.
func TestEqualEpiloguesGiveEqualKeys(t *testing.T) {
	g := func() *launch.Gemm {
		return &launch.Gemm{Type: ir.F16, Epilogue: kerneltest.Epilogue(ir.F16, 3, true)}
	}
	require.Equal(t, g().Key(), g().Key())
	require.NotEqual(t, g().Key(), g().Plain().Key())
	require.Nil(t, g().Plain().Epilogue)
}
