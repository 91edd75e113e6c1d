package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// flops is the arithmetic of the product.
func (p *product) flops() float64 { return 2 * float64(p.batch*p.m*p.n*p.k) }

// parse sets the product that the name describes, and returns the sizes in elements of A, B, C and of the sums where
// they are asked for.
func (p *product) parse() ([]uint64, error) {
	kind, rest, found := strings.Cut(p.name, ":")
	if !found {
		return p.parseMatrices()
	}
	var n, c, size, o, kernel, chunk uint64
	if _, err := fmt.Sscanf(rest, "%dx%dx%dx%dx%d/%d", &n, &c, &size, &o, &kernel, &chunk); err != nil {
		return nil, err
	}
	padded, places := size+kernel-1, size*size
	image, channel := c*padded*padded, padded*padded
	window := []uint64{channel, padded, 1}
	switch kind {
	case "conv":
		p.batch, p.m, p.n, p.k = n, o, places, c*kernel*kernel
		p.gemm = &launch.Gemm{Type: ir.F32, Batch: 1, AUnit: 'k', BUnit: 'n', CStrided: true, KDims: 3, NDims: 2}
		p.params = []uint64{n, o, places, p.k, 0, p.k, 1, 0, image, 1, 1, 0, o * places, places, 1, 0}
		p.params = slices.Concat(p.params, []uint64{c, kernel, kernel}, []uint64{kernel * kernel, kernel, 1}, window,
			[]uint64{size, size}, window[1:])
	case "convdw":
		p.batch, p.m, p.n, p.k = n/chunk, o, c*kernel*kernel, chunk*places
		p.gemm = &launch.Gemm{Type: ir.F32, Batch: 1, AUnit: 'k', BUnit: 'k', CStrided: true, KDims: 3, NDims: 3}
		p.params = []uint64{p.batch, o, p.n, p.k, chunk * o * places, places, 1, 0, chunk * image, 1, 1, 0, o * p.n, p.n, 1,
			0}
		p.params = slices.Concat(p.params, []uint64{chunk, size, size}, []uint64{o * places, size, 1},
			[]uint64{image, padded, 1}, []uint64{c, kernel, kernel}, window)
		return []uint64{n * o * places, n * image, p.batch * o * p.n}, nil
	default:
		return nil, fmt.Errorf("%s: got %q, want conv or convdw", p.name, kind)
	}
	return []uint64{o * p.k, n * image, n * o * places}, nil
}

func (p *product) parseMatrices() ([]uint64, error) {
	var m, n, k uint64
	if _, err := fmt.Sscanf(strings.TrimRight(p.name, "nts"), "%dx%dx%d", &m, &n, &k); err != nil {
		return nil, err
	}
	p.m, p.n, p.k = m, n, k
	p.gemm, p.params = &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, []uint64{m, n, k, k, 1, 0, n, 1, 0}
	form, sums := strings.CutSuffix(p.name, "s")
	if strings.HasSuffix(form, "nt") {
		p.gemm.BUnit, p.params[6], p.params[7] = 'k', 1, k
	}
	if strings.HasSuffix(form, "tn") {
		p.gemm.AUnit, p.params[3], p.params[4] = 'm', 1, m
	}
	sizes := []uint64{m * k, n * k, m * n}
	if sums {
		p.gemm.Sums = 'a'
		sizes = append(sizes, m)
	}
	return sizes, nil
}
