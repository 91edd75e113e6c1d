//go:build !wheel

package composite

import (
	"strings"

	"github.com/torchlette/torchlette/engine/op"
)

// samples makes the samples of an operator. The generators and the tests read them, the library does not: it is built
// with the tag wheel, which leaves them out.
func samples(args ...string) []op.Sample {
	out := make([]op.Sample, len(args))
	for i, a := range args {
		out[i] = sample(a)
	}
	return out
}

// sample splits "positional | keywords".
func sample(s string) op.Sample {
	args, kwargs, _ := strings.Cut(s, "|")
	return op.Sample{Args: strings.TrimSpace(args), Kwargs: strings.TrimSpace(kwargs)}
}
