package gpu

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type listing []AdapterInfo

func (l listing) Name() string                     { return "listing" }
func (l listing) Adapters() ([]AdapterInfo, error) { return l, nil }
func (l listing) Open(int, bool) (Context, error)  { panic("BUG: not to be opened") }

func TestPick(t *testing.T) {
	list, err := Adapters(listing{
		{Index: 0, Name: "llvmpipe", Kind: Software}, {Index: 1, Name: "Arc", Kind: Integrated},
		{Index: 2, Name: "H200", Kind: Discrete}, {Index: 3, Name: "A100", Kind: Discrete},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"H200", "A100", "Arc", "llvmpipe"}, []string{list[0].Name, list[1].Name, list[2].Name,
		list[3].Name})
	for _, c := range []struct {
		name  string
		list  []AdapterInfo
		opts  Options
		want  int
		error string
	}{
		{"best", list, Options{}, 2, ""},
		{"by number", list, Options{Adapter: "1"}, 3, ""},
		{"by name", list, Options{Adapter: "arc"}, 1, ""},
		{"software by name", list, Options{Adapter: "llvmpipe"}, 0, ""},
		{"software is not chosen", list[3:], Options{}, 0, "no GPU was found"},
		{"software when allowed", list[3:], Options{AllowSoftware: true}, 0, ""},
		{"none", nil, Options{AllowSoftware: true}, 0, "no adapters"},
		{"unknown name", list, Options{Adapter: "TPU"}, 0, "no adapter is named"},
		{"number too large", list, Options{Adapter: "4"}, 0, "no such adapter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := Pick(c.list, &c.opts)
			if c.error != "" {
				require.ErrorContains(t, err, c.error)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, a.Index)
		})
	}
}
