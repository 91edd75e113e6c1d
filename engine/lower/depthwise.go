package lower

import "math"

// paddedPlane is the largest number of elements, border included, of a picture that a thread copies to its scratch
// memory.
const paddedPlane = 1 << 18

// padsInPlace returns the parameters of launch.Gemm.Padded for a depthwise convolution whose windows reach over the
// border of its pictures: the product then needs no padded copy of them. It returns nil for others.
func (v *convolution) padsInPlace(p *program, x *arg) []int64 {
	w := &v.win
	if !p.n.GemmPads || !p.n.GemmDims || len(w.Kernel) != 2 || v.c != v.groups || v.o != v.groups || x.stride[3] != 1 {
		return nil
	}
	var pads []int64
	inside, plane := true, int64(1)
	for i, size := range x.shape[2:] {
		need := (w.Out[i]-1)*w.Stride[i] + (w.Kernel[i]-1)*w.Dilation[i] + 1
		if w.Base[i] != 1 || w.Lo[i] < 0 {
			return nil
		}
		inside, plane = inside && w.Lo[i] == 0 && need <= size, plane*need
		pads = append(pads, size, w.Stride[i], w.Dilation[i], w.Lo[i])
	}
	if inside || plane > paddedPlane || v.taps > paddedTaps {
		return nil
	}
	return pads
}

// paddedTaps bounds the elements of a window of such a product.
const paddedTaps = 1 << 10

// sumsDirectly reports a convolution whose elements are better summed one by one: with one channel a group, which would
// be one row of the device's tiles. Kernels have 32-bit indices.
func (p *program) sumsDirectly(rows, products int64) bool {
	return p.n.GemmDims && p.n.Wide && rows == 1 && products <= math.MaxInt32
}
