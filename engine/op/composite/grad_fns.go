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
	"adaptive_avg_pool1d":          {Name: "SqueezeBackward1"},
	"adaptive_max_pool1d":          {Name: "SqueezeBackward1"},
	"atleast_1d":                   {Name: "ViewBackward0"},
	"atleast_2d":                   {Name: "UnsqueezeBackward0"},
	"atleast_3d":                   {Name: "UnsqueezeBackward0"},
	"avg_pool1d":                   {Name: "SqueezeBackward1"},
	"batch_norm":                   {Name: "NativeBatchNormBackward0"},
	"bfloat16":                     {Name: "ToCopyBackward0"},
	"broadcast_tensors":            {Name: "ExpandBackward0"},
	"broadcast_to":                 {Name: "ExpandBackward0"},
	"cartesian_prod":               {Name: "StackBackward0"},
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
	"copysign":                     {Name: "CopysignBackward1", Tensors: "CopysignBackward0"},
	"corrcoef":                     {Name: "ClampBackward1"},
	"cosine_similarity":            {Name: "SumBackward1"},
	"cov":                          {Name: "SqueezeBackward0"},
	"cross":                        {Name: "LinalgCrossBackward0"},
	"cross_entropy":                {Name: "NllLossBackward0"},
	"diag":                         {Choose: diagGradFn},
	"diagflat":                     {Name: "DiagEmbedBackward0"},
	"diff":                         {Name: "SubBackward0"},
	"div":                          {Name: "DivBackward0", Mode: "DivBackward2"},
	"double":                       {Name: "ToCopyBackward0"},
	"dropout":                      {Name: "MulBackward0"},
	"dsplit":                       {Name: "SliceBackward0"},
	"dstack":                       {Name: "CatBackward0"},
	"expand_as":                    {Name: "ExpandBackward0"},
	"fft_fft":                      {Name: "FftR2CBackward0"},
	"fft_fft2":                     {Name: "FftC2CBackward0"},
	"fft_fftn":                     {Name: "FftC2CBackward0"},
	"fft_hfft":                     {Name: "FftC2RBackward0"},
	"fft_hfft2":                    {Name: "FftC2RBackward0"},
	"fft_hfftn":                    {Name: "FftC2RBackward0"},
	"fft_ifft":                     {Name: "FftC2CBackward0"},
	"fft_ifft2":                    {Name: "FftC2CBackward0"},
	"fft_ifftn":                    {Name: "FftC2CBackward0"},
	"fft_ihfft":                    {Name: "ConjBackward0"},
	"fft_ihfft2":                   {Name: "FftC2CBackward0"},
	"fft_ihfftn":                   {Name: "FftC2CBackward0"},
	"fft_irfft":                    {Name: "FftC2RBackward0"},
	"fft_irfft2":                   {Name: "FftC2RBackward0"},
	"fft_irfftn":                   {Name: "FftC2RBackward0"},
	"fft_rfft":                     {Name: "FftR2CBackward0"},
	"fft_rfft2":                    {Name: "FftR2CBackward0"},
	"fft_rfftn":                    {Name: "FftR2CBackward0"},
	"flatten":                      {Name: "ViewBackward0"},
	"fliplr":                       {Name: "FlipBackward0"},
	"flipud":                       {Name: "FlipBackward0"},
	"float":                        {Name: "ToCopyBackward0"},
	"float_power":                  {Name: "PowBackward0", Tensors: "PowBackward1"},
	"fmod":                         {Name: "FmodBackward0", Tensors: "FmodBackward1"},
	"grid_sample":                  {Choose: gridSampleGradFn},
	"group_norm":                   {Name: "NativeGroupNormBackward0"},
	"half":                         {Name: "ToCopyBackward0"},
	"hsplit":                       {Name: "SliceBackward0"},
	"hstack":                       {Name: "CatBackward0"},
	"index_fill":                   {Name: "IndexFillBackward0", Tensors: "IndexFillBackward1"},
	"inner":                        {Name: "ViewBackward0"},
	"inverse":                      {Name: "LinalgInvExBackward0"},
	"kl_div":                       {Name: "MeanBackward0"},
	"kron":                         {Name: "UnsafeViewBackward0"},
	"l1_loss":                      {Name: "MeanBackward0"},
	"layer_norm":                   {Name: "NativeLayerNormBackward0"},
	"lerp":                         {Name: "LerpBackward0", Tensors: "LerpBackward1"},
	"linalg_cholesky":              {Name: "LinalgCholeskyExBackward0"},
	"linalg_cond":                  {Name: "SqueezeBackward1"},
	"linalg_diagonal":              {Name: "DiagonalBackward0"},
	"linalg_eigvals":               {Name: "LinalgEigBackward0"},
	"linalg_eigvalsh":              {Name: "LinalgEighBackward0"},
	"linalg_inv":                   {Name: "LinalgInvExBackward0"},
	"linalg_lu_factor":             {Name: "LinalgLuFactorExBackward0"},
	"linalg_matrix_norm":           {Name: "LinalgVectorNormBackward0"},
	"linalg_multi_dot":             {Name: "ViewBackward0"},
	"linalg_norm":                  {Name: "LinalgVectorNormBackward0"},
	"linalg_solve":                 {Name: "LinalgSolveExBackward0"},
	"linalg_svdvals":               {Name: "LinalgSvdBackward0"},
	"linalg_tensorsolve":           {Name: "ViewBackward0"},
	"linalg_vander":                {Name: "CatBackward0"},
	"linalg_vecdot":                {Name: "SumBackward1"},
	"linear":                       {Choose: linearGradFn},
	"logdet":                       {Name: "WhereBackward0"},
	"logsigmoid":                   {Name: "LogSigmoidBackward0"},
	"lu_solve":                     {Name: "LinalgLuSolveBackward0"},
	"masked_fill":                  {Name: "MaskedFillBackward0", Tensors: "MaskedFillBackward1"},
	"matmul":                       {Choose: matmulGradFn},
	"matrix_exp":                   {Name: "LinalgMatrixExpBackward0"},
	"max":                          {Name: "MaxBackward1"},
	"max.other":                    {Name: "MaximumBackward0"},
	"max_pool1d":                   {Name: "SqueezeBackward1"},
	"mean.dim":                     {Name: "MeanBackward1"},
	"median.dim":                   {Name: "MedianBackward1"},
	"nanmedian.dim":                {Name: "NanmedianBackward1"},
	"meshgrid":                     {Name: "ExpandBackward0"},
	"min":                          {Name: "MinBackward1"},
	"min.other":                    {Name: "MinimumBackward0"},
	"movedim":                      {Name: "PermuteBackward0"},
	"msort":                        {Name: "SortBackward0"},
	"nanmean":                      {Name: "DivBackward0"},
	"nanquantile":                  {Name: "SqueezeBackward4"},
	"narrow":                       {Name: "SliceBackward0"},
	"norm":                         {Name: "LinalgVectorNormBackward0"},
	"norm.str":                     {Name: "LinalgVectorNormBackward0"},
	"outer":                        {Name: "MulBackward0"},
	"pairwise_distance":            {Name: "NormBackward1"},
	"pinverse":                     {Name: "LinalgPinvBackward0"},
	"pow":                          {Name: "PowBackward0", Tensors: "PowBackward1", Reversed: "PowBackward1"},
	"prelu":                        {Name: "PreluKernelBackward0"},
	"prod.dim_int":                 {Name: "ProdBackward1"},
	"quantile":                     {Name: "SqueezeBackward4"},
	"ravel":                        {Name: "ViewBackward0"},
	"relu6":                        {Name: "HardtanhBackward0"},
	"remainder":                    {Name: "RemainderBackward0", Tensors: "RemainderBackward1"},
	"repeat_interleave":            {Name: "ViewBackward0", Tensors: "IndexSelectBackward0"},
	"reshape":                      {Name: "ViewBackward0"},
	"reshape_as":                   {Name: "ViewBackward0"},
	"rms_norm":                     {Name: "MulBackward0"},
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
	"svd":                          {Name: "LinalgSvdBackward0"},
	"take_along_dim":               {Name: "GatherBackward0"},
	"tanhshrink":                   {Name: "SubBackward0"},
	"tensor_split":                 {Name: "SliceBackward0"},
	"tile":                         {Name: "RepeatBackward0"},
	"true_divide":                  {Name: "DivBackward0"},
	"unflatten":                    {Name: "ViewBackward0"},
	"view_as":                      {Name: "ViewBackward0"},
	"vsplit":                       {Name: "SliceBackward0"},
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

// diagGradFn names the function of diag: of a vector it makes a matrix.
func diagGradFn(_ []op.Val, result op.Val) string {
	if len(result.Shape()) == 2 {
		return "DiagEmbedBackward0"
	}
	return "DiagonalBackward0_copy"
}

// gridSampleGradFn names the function of grid_sample, by the dims of its result.
func gridSampleGradFn(_ []op.Val, result op.Val) string {
	if len(result.Shape()) == 5 {
		return "GridSampler3DBackward0"
	}
	return "GridSampler2DBackward0"
}

// setGradFns sets op.Def.GradFn.
func setGradFns() {
	for name, f := range gradFns {
		op.DefNamed(name).GradFn = f
	}
}
