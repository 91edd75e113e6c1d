package op

import "github.com/torchlette/torchlette/ir"

// BatchKind says how a primitive computes a batch of its operands under vmap.
type BatchKind uint8

// The kinds of batching rules. The batch dims are the first dims of operands and results.
const (
	BatchLoop     BatchKind = iota // no rule: the primitive is recorded for each element, and the results are joined
	BatchSame                      // the primitive takes the batch dims like any others
	BatchDims                      // the dims that its attributes name move behind the batch dims
	BatchSplit                     // the primitive in parts: operands that it takes whole are applied after it
	BatchIndex                     // an index that differs in the batch makes a gather of it
	BatchFold                      // the batch dims join a dim of the primitive
	BatchLayout                    // the batch dims come first in the layout that an attribute names
	BatchDraw                      // a draw: the levels whose randomness is "different" get numbers of their own
	BatchConstant                  // no tensor operands: one result for the whole batch
	BatchProgram                   // the program that an attribute holds computes the batch
)

// String returns the kind's name in the list of primitives.
func (k BatchKind) String() string {
	return [...]string{"loop", "same", "dims", "split", "index", "fold", "layout", "draw", "constant", "program"}[k]
}

// BatchCall is the call of a batching rule.
type BatchCall struct {
	B     Builder
	Prim  *Prim
	Attr  []int64
	In    []Val // those that Batched names have the batch dims first
	Sizes []int64
	// Batched says which operands have the batch; others are equal for all elements. It holds for one at least.
	Batched []bool
	// Out has dtype and shape of one element of each result. Results of a rule may differ from it in the grouping of the
	// dims after those of the batch.
	Out []OutSpec
}

// Batch computes a primitive for a batch of operands.
type Batch func(c *BatchCall) []Val

// Count is the number of elements of the batch.
func (c *BatchCall) Count() int64 { return ir.Numel(c.Sizes) }

// SetBatch sets the batching rule of a primitive.
func SetBatch(id PrimID, kind BatchKind, rule Batch) {
	p := prims[id]
	if p.Batch != nil || p.BatchKind != BatchLoop {
		panic("BUG: primitive has two batching rules: " + p.Name)
	}
	p.BatchKind, p.Batch = kind, rule
}
