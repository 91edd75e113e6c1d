//go:build cogentcore

package wgpu

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	binding "github.com/cogentcore/webgpu/wgpu"
)

// TestLayout guards first and second, which take C handles out of the binding's structs.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		typ   reflect.Type
		field int
	}{{reflect.TypeFor[binding.Device](), 0}, {reflect.TypeFor[binding.Buffer](), 1}, {reflect.TypeFor[binding.Queue](),
		1}} {
		f := c.typ.Field(c.field)
		assert.Equal(t, "ref", f.Name, "%s", c.typ)
		assert.Equal(t, uintptr(c.field)*reflect.TypeFor[uintptr]().Size(), f.Offset, "%s", c.typ)
	}
}
