package op

// Windows places sliding windows over the last dims of a tensor, in the terms of XLA's convolutions. Along each dim the
// input is dilated by Base (Base-1 zeros between neighbours), and padded by Lo in front and as needed behind. Window
// element k of output position o is then at o*Stride + k*Dilation. A negative Lo crops the input.
type Windows struct {
	Kernel, Stride, Lo, Dilation, Base, Out []int64
}

// windowLists is the number of lists in a Windows.
const windowLists = 6

// Lists returns the fields in order.
func (w *Windows) Lists() [windowLists]*[]int64 {
	return [windowLists]*[]int64{&w.Kernel, &w.Stride, &w.Lo, &w.Dilation, &w.Base, &w.Out}
}

// Attr encodes w: the number of dims, then the lists.
func (w *Windows) Attr() []int64 {
	attr := []int64{int64(len(w.Kernel))}
	for _, l := range w.Lists() {
		attr = append(attr, *l...)
	}
	return attr
}

// WindowsOf decodes the windows that Attr encoded at the front of attr, and returns the rest.
func WindowsOf(attr []int64) (w Windows, rest []int64) {
	d := int(attr[0])
	attr = attr[1:]
	for _, l := range w.Lists() {
		*l, attr = attr[:d:d], attr[d:]
	}
	return w, attr
}

// Steps reports that strides, dilations and distances of input elements are positive, as kernels divide by them.
func (w *Windows) Steps() bool {
	for _, l := range [][]int64{w.Stride, w.Dilation, w.Base} {
		for _, n := range l {
			if n < 1 {
				return false
			}
		}
	}
	return true
}

// Far reports windows so large that positions could overflow; no tensor has that size.
func (w *Windows) Far() bool {
	const limit = 1 << 40
	for i, k := range w.Kernel {
		for _, l := range w.Lists() {
			if v := (*l)[i]; v > limit || v < -limit {
				return true
			}
		}
		if w.Dilation[i] > 0 && k > limit/w.Dilation[i] || w.Stride[i] > 0 && w.Out[i] > limit/w.Stride[i] {
			return true
		}
	}
	return false
}

// Adjoint returns the windows over an output's cotangent that sum the cotangent of each of the `in` elements; the
// kernel is reversed.
func (w *Windows) Adjoint(in []int64) Windows {
	lo := make([]int64, len(in))
	for i := range lo {
		lo[i] = (w.Kernel[i]-1)*w.Dilation[i] - w.Lo[i]
	}
	return Windows{Kernel: w.Kernel, Stride: w.Base, Lo: lo, Dilation: w.Dilation, Base: w.Stride, Out: in}
}
