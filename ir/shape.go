package ir

// SameShape reports equal sizes.
func SameShape(x, y []int64) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}

// CheckDim turns a dim in [-rank, rank) into one in [0, rank), or returns PyTorch's IndexError. Tensors without dims
// accept -1 and 0.
func CheckDim(dim int64, rank int) (int, error) {
	n := int64(max(rank, 1))
	if dim < -n || dim >= n {
		return 0, Errorf(ErrIndex, "Dimension out of range (expected to be in range of [%d, %d], but got %d)", -n, n-1, dim)
	}
	if dim < 0 {
		dim += n
	}
	return int(dim), nil
}

// WrapDim is CheckDim that panics with the *Error.
func WrapDim(dim int64, rank int) int {
	d, err := CheckDim(dim, rank)
	if err != nil {
		panic(err)
	}
	return d
}

// DimMask marks the listed dims of a tensor of that rank.
func DimMask(dims []int64, rank int) ([]bool, error) {
	mask := make([]bool, max(rank, 1))
	for _, d := range dims {
		k, err := CheckDim(d, rank)
		if err != nil {
			return nil, err
		}
		if mask[k] {
			return nil, Errorf(ErrRuntime, "dim %d appears multiple times in the list of dims", k)
		}
		mask[k] = true
	}
	return mask[:rank], nil
}

// MaskedNumel is the product of the sizes of the marked dims.
func MaskedNumel(mask []bool, shape []int64) int64 {
	n := int64(1)
	for i, m := range mask {
		if m {
			n *= shape[i]
		}
	}
	return n
}

// BroadcastShape joins two shapes. Where they do not broadcast it panics with PyTorch's error as an *Error.
func BroadcastShape(x, y []int64) []int64 {
	if SameShape(x, y) {
		return x
	}
	n := max(len(x), len(y))
	out := make([]int64, n)
	size := func(s []int64, i int) int64 {
		if k := len(s) - n + i; k >= 0 {
			return s[k]
		}
		return 1
	}
	for i := n - 1; i >= 0; i-- { // PyTorch names the last dim that differs
		p, q := size(x, i), size(y, i)
		switch {
		case p == q || q == 1:
			out[i] = p
		case p == 1:
			out[i] = q
		default:
			panic(Errorf(ErrRuntime, "The size of tensor a (%d) must match the size of tensor b (%d) at non-singleton "+
				"dimension %d", p, q, i))
		}
	}
	return out
}
