package op

// GradFn is PyTorch's name for the autograd function of an operator. It is a table, since PyTorch numbers the
// derivatives of a name's overloads, and some operators call another operator there. The zero GradFn stands for the
// operator's own name in capitals and Backward0.
type GradFn struct {
	Name string
	// Tensors is the name where no operand is a number, Reversed where the first is one, Several where a list of dims
	// has more than one, Mode where a word is given. "" stands for Name.
	Tensors, Reversed, Several, Mode string
	// Choose, where set, decides by shapes.
	Choose func(operands []Val, result Val) string
}

// GradFnName is PyTorch's name for the autograd function of a primitive or an operator: words, and letters after
// digits, begin with a capital.
func GradFnName(name string) string {
	b := make([]byte, 0, len(name)+len("Backward0"))
	up := true
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '_' {
			up = true
			continue
		}
		if up && c >= 'a' && c <= 'z' {
			c -= 32
		}
		up = c >= '0' && c <= '9'
		b = append(b, c)
	}
	return string(b) + "Backward0"
}

// savedNames has PyTorch's names for the operands that a function saves and, after a bar, for its results. Functions of
// elementwise primitives save "self other|result"; other absent functions save nothing that has a name.
var savedNames = map[string]string{
	"AddmmBackward0":           "mat1 mat2",
	"AmaxBackward0":            "self|result",
	"AminBackward0":            "self|result",
	"ConvolutionBackward0":     "input weight",
	"EmbeddingBackward0":       "weight indices",
	"GatherBackward0":          "self index",
	"IndexSelectBackward0":     "self index",
	"LogSoftmaxBackward0":      "self|result",
	"MaxBackward0":             "self|values indices",
	"MinBackward0":             "self|values indices",
	"MmBackward0":              "self mat2",
	"NativeLayerNormBackward0": "input weight bias|result0 result1 result2",
	"PowBackward0":             "self exponent|result",
	"PowBackward1":             "self exponent|result",
	"SoftmaxBackward0":         "self|result",
	"SortBackward0":            "self|values indices",
	"TopkBackward0":            "self|values indices",
	"WhereBackward0":           "condition self other",
}

// SavedNames names the values that an autograd function saves: operands and, after a bar, results. ok is false where
// PyTorch has no names for them.
func SavedNames(gradFn string) (names string, ok bool) {
	names, ok = savedNames[gradFn]
	return names, ok
}
