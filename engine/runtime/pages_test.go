//go:build linux

package runtime

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
)

// resident returns bytes of this process in memory: now, and the most since the last reset.
func resident(t *testing.T) (now, peak int64) {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		for name, to := range map[string]*int64{"VmRSS:": &now, "VmHWM:": &peak} {
			if text, ok := strings.CutPrefix(s.Text(), name); ok {
				_, err := fmt.Sscan(text, to)
				require.NoError(t, err)
			}
		}
	}
	return now << 10, peak << 10
}

// While the elements of a file are copied, few of its pages are in memory beside the copy.
func TestACopyOfPagesIsMadeInPieces(t *testing.T) {
	const size = 128 << 20
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(size+1))
	_, err = f.WriteAt([]byte{7}, size)
	require.NoError(t, err)
	pages, err := syscall.Mmap(int(f.Fd()), 0, size+1, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { _ = syscall.Munmap(pages) }()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200) != nil {
		t.Skip("the peak cannot be reset")
	}
	x := New()
	defer x.Close()
	d, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	x.AddDevice(ir.CPU, d)
	id := x.NewAbsent(ir.CPU, unsafe.Pointer(&pages[1]), size, 0, func() {})
	before, _ := resident(t)
	require.NoError(t, x.Restore(id))
	_, peak := resident(t)
	assert.Less(t, peak-before, int64(size+size/2))
	last := make([]byte, 1)
	require.NoError(t, x.Read(id, ir.U8, size-1, last, 0))
	assert.Equal(t, []byte{7}, last)
	x.Drop(id)
}
