package compile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// The pass of docs/howto/add-a-pass.md: it finds the nodes whose values nobody reads.

// unreadTable marks the nodes whose values nobody reads.
type unreadTable map[int]bool

func (u unreadTable) find(b *Builder) error {
	for i := range b.Program.Nodes {
		if b.uses.count[i] == 0 && !b.live(i) {
			u[i] = true
		}
	}
	return nil
}

func (u unreadTable) note(_ *Builder, i int) string {
	if u[i] {
		return "read by nobody"
	}
	return ""
}

func unreadPass(u unreadTable) pass {
	return pass{
		name: "unread", run: u.find, note: u.note, optional: true,
		requires: []string{"uses"},
		reason:   "the table of uses counts the readers",
	}
}

// inserted puts a pass before place into the table of passes, for one test.
func inserted(t *testing.T, p pass, place int) {
	t.Helper()
	old := passes
	passes = slices.Insert(slices.Clone(passes), place, p)
	t.Cleanup(func() { passes = old })
}

// The pages that list the passes have them all, in order.
func TestPagesListThePasses(t *testing.T) {
	for page, row := range map[string]string{"internals/compilation.md": "\n| `%s` | ", "environment.md": "`%s`"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(page)))
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(text), fmt.Sprintf(row, passes[0].name))
		require.True(t, found, page)
		for _, p := range passes[1:] {
			_, rest, found = strings.Cut(rest, fmt.Sprintf(row, p.name))
			require.True(t, found, "%s does not list %s in its place", page, p.name)
		}
	}
}

// A pass is one entry: it runs in its place, dumps show it, it can be left out, and a wrong place is reported at
// start-up.
func TestThePassOfThePageWorks(t *testing.T) {
	p := program.MustParse(`input $0 : f32[4]
%0 = mul $0 2.0 : f32[4]
%1 = add $0 1.0 : f32[4] live
`)
	plan := func(off ...string) (dump string) {
		d, out := reference.New(), &bytes.Buffer{}
		b := Builder{Program: p, Caps: func(ir.DeviceID) *device.Caps { return d.Caps() }, Lowered: &lower.Memo{},
			Debug: Debug{Dump: "unread", Out: out, Off: off}}
		require.NoError(t, b.Debug.Check())
		_, err := b.Build()
		require.NoError(t, err)
		return out.String()
	}
	u := unreadTable{}
	inserted(t, unreadPass(u), 1)
	require.NoError(t, checkOrder(passes))
	dump := plan()
	assert.Equal(t, unreadTable{0: true}, u)
	assert.Contains(t, dump, "# before unread (2 nodes)")
	assert.Contains(t, dump, "%0 = mul $0 2.0 : f32[4]  # read by nobody")
	assert.Empty(t, plan("unread"))

	inserted(t, pass{name: "early", run: u.find, requires: []string{"memory"}, reason: "a test"}, 0)
	assert.ErrorContains(t, checkOrder(passes), "pass early runs before memory, which it requires: a test")
}
