package composite

import "github.com/torchlette/torchlette/engine/op"

// gradFns has the operators whose autograd function PyTorch does not name after the operator.
var gradFns = map[string]op.GradFn{
	"_T":                           {Name: "PermuteBackward0"},
	"_batch_norm_stats":            {Name: "NativeBatchNormBackward0"},
	"_index":                       {Choose: indexGradFn},
	"_index_tensor":                {Name: "IndexBackward0"},
	"_mT":                          {Name: "TransposeBackward0"},
	"_to_device":                   {Name: "ToCopyBackward0"},
	"_to_dtype":                    {Name: "ToCopyBackward0"},
	"batch_norm":                   {Name: "NativeBatchNormBackward0"},
	"bfloat16":                     {Name: "ToCopyBackward0"},
	"broadcast_to":                 {Name: "ExpandBackward0"},
	"chunk":                        {Name: "SplitBackward0"},
	"clamp":                        {Name: "ClampBackward1", Tensors: "ClampBackward0"},
	"clamp_max":                    {Name: "ClampMaxBackward0", Tensors: "ClampMaxBackward1"},
	"clamp_min":                    {Name: "ClampMinBackward0", Tensors: "ClampMinBackward1"},
	"column_stack":                 {Name: "CatBackward0"},
	"conv1d":                       {Name: "ConvolutionBackward0"},
	"conv1d.padding":               {Name: "ConvolutionBackward0"},
	"conv2d":                       {Name: "ConvolutionBackward0"},
	"conv2d.padding":               {Name: "ConvolutionBackward0"},
	"conv3d":                       {Name: "ConvolutionBackward0"},
	"conv3d.padding":               {Name: "ConvolutionBackward0"},
	"conv_transpose1d":             {Name: "ConvolutionBackward0"},
	"conv_transpose2d":             {Name: "ConvolutionBackward0"},
	"conv_transpose3d":             {Name: "ConvolutionBackward0"},
	"cosine_similarity":            {Name: "SumBackward1"},
	"cross_entropy":                {Name: "NllLossBackward0"},
	"div":                          {Name: "DivBackward0", Mode: "DivBackward2"},
	"double":                       {Name: "ToCopyBackward0"},
	"dropout":                      {Name: "MulBackward0"},
	"dstack":                       {Name: "CatBackward0"},
	"expand_as":                    {Name: "ExpandBackward0"},
	"flatten":                      {Name: "ViewBackward0"},
	"fliplr":                       {Name: "FlipBackward0"},
	"flipud":                       {Name: "FlipBackward0"},
	"float":                        {Name: "ToCopyBackward0"},
	"fmod":                         {Name: "FmodBackward0", Tensors: "FmodBackward1"},
	"group_norm":                   {Name: "NativeGroupNormBackward0"},
	"half":                         {Name: "ToCopyBackward0"},
	"hstack":                       {Name: "CatBackward0"},
	"index_fill":                   {Name: "IndexFillBackward0", Tensors: "IndexFillBackward1"},
	"kl_div":                       {Name: "MeanBackward0"},
	"l1_loss":                      {Name: "MeanBackward0"},
	"layer_norm":                   {Name: "NativeLayerNormBackward0"},
	"lerp":                         {Name: "LerpBackward0", Tensors: "LerpBackward1"},
	"linear":                       {Choose: linearGradFn},
	"logsigmoid":                   {Name: "LogSigmoidBackward0"},
	"masked_fill":                  {Name: "MaskedFillBackward0", Tensors: "MaskedFillBackward1"},
	"matmul":                       {Choose: matmulGradFn},
	"max":                          {Name: "MaxBackward1"},
	"max.other":                    {Name: "MaximumBackward0"},
	"mean.dim":                     {Name: "MeanBackward1"},
	"min":                          {Name: "MinBackward1"},
	"min.other":                    {Name: "MinimumBackward0"},
	"movedim":                      {Name: "PermuteBackward0"},
	"narrow":                       {Name: "SliceBackward0"},
	"norm":                         {Name: "LinalgVectorNormBackward0"},
	"norm.str":                     {Name: "LinalgVectorNormBackward0"},
	"outer":                        {Name: "MulBackward0"},
	"pow":                          {Name: "PowBackward0", Tensors: "PowBackward1", Reversed: "PowBackward1"},
	"prelu":                        {Name: "PreluKernelBackward0"},
	"prod.dim_int":                 {Name: "ProdBackward1"},
	"ravel":                        {Name: "ViewBackward0"},
	"relu6":                        {Name: "HardtanhBackward0"},
	"remainder":                    {Name: "RemainderBackward0", Tensors: "RemainderBackward1"},
	"reshape":                      {Name: "ViewBackward0"},
	"reshape_as":                   {Name: "ViewBackward0"},
	"round.decimals":               {Name: "RoundBackward1"},
	"rsub":                         {Name: "RsubBackward1", Tensors: "RsubBackward0"},
	"scaled_dot_product_attention": {Name: "ScaledDotProductFlashAttentionForCpuBackward0"},
	"scatter.value":                {Name: "ScatterBackward1"},
	"selu":                         {Name: "EluBackward0"},
	"softsign":                     {Name: "DivBackward0"},
	"split.sizes":                  {Name: "SplitWithSizesBackward0"},
	"square":                       {Name: "PowBackward0"},
	"squeeze.dims":                 {Name: "SqueezeBackward1", Several: "SqueezeBackward2"},
	"sub":                          {Name: "SubBackward0", Reversed: "RsubBackward1"},
	"sum.dim":                      {Name: "SumBackward1"},
	"take_along_dim":               {Name: "GatherBackward0"},
	"tanhshrink":                   {Name: "SubBackward0"},
	"tensor_split":                 {Name: "SliceBackward0"},
	"tile":                         {Name: "RepeatBackward0"},
	"true_divide":                  {Name: "DivBackward0"},
	"unflatten":                    {Name: "ViewBackward0"},
	"view_as":                      {Name: "ViewBackward0"},
	"vstack":                       {Name: "CatBackward0"},
	"zero_":                        {Name: "ZeroBackward0"},
}

// indexGradFn names the function of basic indexing, which is several functions in PyTorch: the one that changes the
// number of dims.
func indexGradFn(operands []op.Val, result op.Val) string {
	switch in, out := len(operands[0].Shape()), len(result.Shape()); {
	case out < in:
		return "SelectBackward0"
	case out > in:
		return "UnsqueezeBackward0"
	}
	return "SliceBackward0"
}

// matmulGradFn names the function of a product, by the number of dims.
func matmulGradFn(_ []op.Val, result op.Val) string {
	switch len(result.Shape()) {
	case 0:
		return "DotBackward0"
	case 1:
		return "MvBackward0"
	case 2:
		return "MmBackward0"
	}
	return "UnsafeViewBackward0"
}

// linearGradFn names the function of a product that may have a bias.
func linearGradFn(operands []op.Val, result op.Val) string {
	if len(result.Shape()) == 2 && len(operands) == 3 {
		return "AddmmBackward0"
	}
	return matmulGradFn(operands, result)
}

// setGradFns sets op.Def.GradFn.
func setGradFns() {
	for name, f := range gradFns {
		op.DefNamed(name).GradFn = f
	}
}
