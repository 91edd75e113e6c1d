package autograd

import (
	"maps"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Name is the name of the function that made edge e: PyTorch's, where it has one.
func (t *Tape) Name(e uint32) string {
	n := t.Node(e)
	switch {
	case n.Kind == KindLeaf:
		return "AccumulateGrad"
	case n.From.Label != "":
		return n.From.Label
	case n.From.InPlace && n.Kind == KindPrim && op.PrimOf(n.Prim).Name == "strided_scatter":
		return "CopySlices"
	case n.From.Op != 0:
		return operatorName(op.DefOf(n.From.Op), n)
	case n.Kind == KindView:
		return [...]string{"AsStridedBackward0", "ViewBackward0", "PermuteBackward0", "ExpandBackward0"}[n.View.Kind]
	}
	return camel(op.PrimOf(n.Prim).NameFor(ir.AttrOf(n.Attr))) + "Backward0"
}

// functionName is what PyTorch calls the function of an operator: it numbers the derivatives of the
// overloads of a name, and some operators are another's call there.
type functionName struct {
	name string
	// tensors is the name when no operand is a number, reversed when the first one is, several when a list
	// of dims has more than one, mode when a word is given. "" means name.
	tensors, reversed, several, mode string
}

// functionNames holds the operators whose function has not the plain name: the operator's in capitals and
// Backward0.
var functionNames = map[string]functionName{
	"_T":                           {name: "PermuteBackward0"},
	"_index_tensor":                {name: "IndexBackward0"},
	"_mT":                          {name: "TransposeBackward0"},
	"batch_norm":                   {name: "NativeBatchNormBackward0"},
	"_batch_norm_stats":            {name: "NativeBatchNormBackward0"},
	"broadcast_to":                 {name: "ExpandBackward0"},
	"chunk":                        {name: "SplitBackward0"},
	"clamp":                        {name: "ClampBackward1", tensors: "ClampBackward0"},
	"clamp_max":                    {name: "ClampMaxBackward0", tensors: "ClampMaxBackward1"},
	"clamp_min":                    {name: "ClampMinBackward0", tensors: "ClampMinBackward1"},
	"column_stack":                 {name: "CatBackward0"},
	"bfloat16":                     {name: "ToCopyBackward0"},
	"conv1d.padding":               {name: "ConvolutionBackward0"},
	"conv2d.padding":               {name: "ConvolutionBackward0"},
	"conv3d.padding":               {name: "ConvolutionBackward0"},
	"double":                       {name: "ToCopyBackward0"},
	"float":                        {name: "ToCopyBackward0"},
	"half":                         {name: "ToCopyBackward0"},
	"conv1d":                       {name: "ConvolutionBackward0"},
	"conv2d":                       {name: "ConvolutionBackward0"},
	"conv3d":                       {name: "ConvolutionBackward0"},
	"conv_transpose1d":             {name: "ConvolutionBackward0"},
	"conv_transpose2d":             {name: "ConvolutionBackward0"},
	"conv_transpose3d":             {name: "ConvolutionBackward0"},
	"cosine_similarity":            {name: "SumBackward1"},
	"cross_entropy":                {name: "NllLossBackward0"},
	"dropout":                      {name: "MulBackward0"},
	"dstack":                       {name: "CatBackward0"},
	"expand_as":                    {name: "ExpandBackward0"},
	"flatten":                      {name: "ViewBackward0"},
	"fliplr":                       {name: "FlipBackward0"},
	"flipud":                       {name: "FlipBackward0"},
	"fmod":                         {name: "FmodBackward0", tensors: "FmodBackward1"},
	"group_norm":                   {name: "NativeGroupNormBackward0"},
	"hstack":                       {name: "CatBackward0"},
	"index_fill":                   {name: "IndexFillBackward0", tensors: "IndexFillBackward1"},
	"kl_div":                       {name: "MeanBackward0"},
	"l1_loss":                      {name: "MeanBackward0"},
	"layer_norm":                   {name: "NativeLayerNormBackward0"},
	"lerp":                         {name: "LerpBackward0", tensors: "LerpBackward1"},
	"logsigmoid":                   {name: "LogSigmoidBackward0"},
	"masked_fill":                  {name: "MaskedFillBackward0", tensors: "MaskedFillBackward1"},
	"max":                          {name: "MaxBackward1"},
	"max.other":                    {name: "MaximumBackward0"},
	"min":                          {name: "MinBackward1"},
	"min.other":                    {name: "MinimumBackward0"},
	"movedim":                      {name: "PermuteBackward0"},
	"narrow":                       {name: "SliceBackward0"},
	"norm":                         {name: "LinalgVectorNormBackward0"},
	"norm.str":                     {name: "LinalgVectorNormBackward0"},
	"outer":                        {name: "MulBackward0"},
	"pow":                          {name: "PowBackward0", tensors: "PowBackward1", reversed: "PowBackward1"},
	"prelu":                        {name: "PreluKernelBackward0"},
	"_to_dtype":                    {name: "ToCopyBackward0"},
	"_to_device":                   {name: "ToCopyBackward0"},
	"div":                          {name: "DivBackward0", mode: "DivBackward2"},
	"mean.dim":                     {name: "MeanBackward1"},
	"rsub":                         {name: "RsubBackward1", tensors: "RsubBackward0"},
	"split.sizes":                  {name: "SplitWithSizesBackward0"},
	"squeeze.dims":                 {name: "SqueezeBackward1", several: "SqueezeBackward2"},
	"sub":                          {name: "SubBackward0", reversed: "RsubBackward1"},
	"sum.dim":                      {name: "SumBackward1"},
	"prod.dim_int":                 {name: "ProdBackward1"},
	"ravel":                        {name: "ViewBackward0"},
	"relu6":                        {name: "HardtanhBackward0"},
	"remainder":                    {name: "RemainderBackward0", tensors: "RemainderBackward1"},
	"reshape":                      {name: "ViewBackward0"},
	"reshape_as":                   {name: "ViewBackward0"},
	"round.decimals":               {name: "RoundBackward1"},
	"scaled_dot_product_attention": {name: "ScaledDotProductFlashAttentionForCpuBackward0"},
	"scatter.value":                {name: "ScatterBackward1"},
	"selu":                         {name: "EluBackward0"},
	"softsign":                     {name: "DivBackward0"},
	"square":                       {name: "PowBackward0"},
	"take_along_dim":               {name: "GatherBackward0"},
	"tanhshrink":                   {name: "SubBackward0"},
	"tensor_split":                 {name: "SliceBackward0"},
	"tile":                         {name: "RepeatBackward0"},
	"true_divide":                  {name: "DivBackward0"},
	"unflatten":                    {name: "ViewBackward0"},
	"view_as":                      {name: "ViewBackward0"},
	"vstack":                       {name: "CatBackward0"},
	"zero_":                        {name: "ZeroBackward0"},
}

// operatorName names the function of an operator.
func operatorName(d *op.Def, n *Node) string {
	switch d.Parsed.Name {
	case "matmul", "linear":
		return productName(d, n)
	case "_index":
		return indexName(n)
	}
	f, ok := functionNames[d.Parsed.Full]
	switch {
	case !ok:
		return camel(strings.Trim(d.Parsed.Name, "_")) + "Backward0"
	case f.tensors != "" && !n.From.Number:
		return f.tensors
	case f.reversed != "" && n.In[0].Val.IsScalar():
		return f.reversed
	case f.several != "" && n.From.First > 1:
		return f.several
	case f.mode != "" && n.From.First >= 0:
		return f.mode
	}
	return f.name
}

// indexName names PyTorch's function for basic indexing, which is several there: the one that changes the
// number of dims.
func indexName(n *Node) string {
	switch in, out := len(n.In[0].Val.Shape()), len(n.Out[0].Val.Shape()); {
	case out < in:
		return "SelectBackward0"
	case out > in:
		return "UnsqueezeBackward0"
	}
	return "SliceBackward0"
}

// productName names PyTorch's function for a product, by the number of dims.
func productName(d *op.Def, n *Node) string {
	switch rank := len(n.Out[0].Val.Shape()); {
	case rank == 0:
		return "DotBackward0"
	case rank == 1:
		return "MvBackward0"
	case rank > 2:
		return "UnsafeViewBackward0"
	case d.Parsed.Name == "linear" && len(n.In) == 3:
		return "AddmmBackward0"
	}
	return "MmBackward0"
}

// camel writes an operator's name as PyTorch's functions do: words and letters after digits begin
// with a capital.
func camel(s string) string {
	b := make([]byte, 0, len(s))
	up := true
	for i := 0; i < len(s); i++ {
		c := s[i]
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
	return string(b)
}

// Next lists the edges to the functions whose results the function of edge e took, in the
// order of its operands; 0 stands for an operand that requires no gradient.
func (t *Tape) Next(e uint32) []uint32 {
	var found []uint32
	seen := map[uint32]bool{e >> 4: true}
	var visit func(n *Node)
	visit = func(n *Node) {
		for i := range n.In {
			v := &n.In[i].Val
			switch p := v.Tape; {
			case p == 0:
				if v.Kind == op.Tensor && v.Base != 0 && n.From.Op != 0 {
					found = append(found, 0)
				}
			case n.From.Call != 0 && t.Node(p).From.Call == n.From.Call && t.Node(p).Kind != KindLeaf:
				if !seen[p>>4] {
					seen[p>>4] = true
					visit(t.Node(p))
				}
			default:
				found = append(found, p)
			}
		}
	}
	visit(t.Node(e))
	return found
}

// Leaves lists the handles that the history of the given edges ends in, in the order of a walk that goes
// first where the first operand leads.
func (t *Tape) Leaves(edges []uint32) []uint64 {
	var found []uint64
	seen := map[uint32]bool{}
	work := slices.Clone(edges)
	slices.Reverse(work)
	for len(work) > 0 {
		id := work[len(work)-1] >> 4
		work = work[:len(work)-1]
		if id == 0 || seen[id] {
			continue
		}
		seen[id] = true
		n := t.nodes[id]
		if n.Kind == KindLeaf {
			found = append(found, n.Leaf)
		}
		for i := len(n.In) - 1; i >= 0; i-- {
			work = append(work, n.In[i].Val.Tape)
		}
	}
	return found
}

// Close says of leaf e that the transform whose point it is has called its function: the leaf can be differentiated by,
// but no history is kept for its sake.
func (t *Tape) Close(e uint32) { t.Node(e).Closed = true }

// LeadsOutside tells of each edge whether its history ends in a leaf that is not closed. Results of a transform keep
// such a history; one that ends in closed leaves only is of no use to anyone outside.
func (t *Tape) LeadsOutside(edges []uint32) []bool {
	found := make([]bool, len(edges))
	inside := map[uint32]bool{} // steps whose history was searched in vain
	for i, e := range edges {
		found[i] = t.leadsOutside(e, inside)
	}
	return found
}

func (t *Tape) leadsOutside(edge uint32, inside map[uint32]bool) bool {
	work, seen := []uint32{edge}, map[uint32]bool{}
	for len(work) > 0 {
		id := work[len(work)-1] >> 4
		work = work[:len(work)-1]
		if id == 0 || seen[id] || inside[id] {
			continue
		}
		seen[id] = true
		n := t.nodes[id]
		if n.Kind == KindLeaf && !n.Closed {
			return true
		}
		for i := range n.In {
			work = append(work, n.In[i].Val.Tape)
		}
	}
	maps.Copy(inside, seen)
	return false
}

// modified is the error of a saved value that was written to since; producer is the edge of what made it, 0 for
// a leaf, and site the line that recorded the step that needs it.
func (t *Tape) modified(v *Saved, producer uint32, now uint64, sourceLoc uint32) error {
	from := ""
	if producer != 0 && t.Node(producer).Kind != KindLeaf {
		from = ", which is output " + string('0'+rune(producer&15)) + " of " + t.Name(producer) + ","
	}
	err := ir.Errorf(ir.ErrSavedModified, "one of the variables needed for gradient computation has been modified by an "+
		"inplace operation: [torch.%s %s]%s is at version %d; "+
		"expected version %d instead. Hint: enable anomaly detection to find the operation that failed to compute its "+
		"gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).",
		v.Val.DType().ScalarType()+"Tensor", ir.ShapeString(v.Val.Shape()), from, now, v.Commit)
	err.SourceLoc = sourceLoc
	return err
}
