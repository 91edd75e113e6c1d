package gpuir

import (
	"math/bits"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Program is what one thread of a workgroup does. Workgroups are one-dimensional. Indices are I32, or wider where an
// expression of the loop IR asks for it, so that a launch is limited to 2^31 elements.
type Program struct {
	Name      string
	Bufs      []Buf
	Params    []loopir.Param
	Workgroup int // threads
	Shared    []SharedArray
	Vars      []Var
	Body      []Stmt
	Checks    bool
	// Groups gives the number of workgroups: the product over its entries of ceil(product of parameters / Per), times
	// Repeat. The group number is GroupID.
	Groups []GroupFactor
	// Repeat is a constant factor of the number of workgroups; 0 counts as 1.
	Repeat int64
	// Subgroup is the number of threads that PShuffle works within: thread t of a workgroup is thread t % Subgroup of
	// subgroup t / Subgroup. 0: no shuffles.
	Subgroup int
}

// Buf is a storage binding: an array of scalars, or of vectors of four elements.
type Buf struct {
	Type   ir.DType
	Access loopir.BufAccess
	Vec    int // elements of a vector: 1 or 4
	// Scratch marks memory that passes results from one pass of a launch to the next. The launch has no such buffer.
	Scratch bool
}

// GroupFactor is one factor of the number of workgroups.
type GroupFactor struct {
	Params []int
	Per    int64
}

// GridFold is the number of workgroups along x; further ones go along y.
const GridFold = 32768

// Grid is the launch geometry for the given parameters. An empty launch has a zero.
func (p *Program) Grid(params []uint64) [3]uint32 {
	n := uint64(max(p.Repeat, 1))
	for _, f := range p.Groups {
		m := uint64(1)
		for _, q := range f.Params {
			hi, lo := bits.Mul64(m, params[q])
			if hi != 0 {
				return [3]uint32{GridFold, ^uint32(0), 1}
			}
			m = lo
		}
		n *= (m + uint64(f.Per) - 1) / uint64(f.Per)
	}
	if n <= GridFold {
		return [3]uint32{uint32(n), 1, 1}
	}
	return [3]uint32{GridFold, uint32(min((n+GridFold-1)/GridFold, 1<<32-1)), 1}
}

// SharedBytes is the workgroup memory that p uses.
func (p *Program) SharedBytes() int {
	n := 0
	for _, s := range p.Shared {
		width := s.Type.Size()
		if s.Type == ir.Bool {
			width = 4
		}
		n += width * s.Vec * s.Len
		n = (n + 15) &^ 15
	}
	return n
}

// SharedArray is a workgroup array of Len vectors of Vec elements.
type SharedArray struct {
	Type ir.DType
	Len  int
	Vec  int
}

// Var is a local value; its number is its name.
type Var struct {
	Type  ir.DType
	Width int // 1 or 4
}

// The operations that only the GPU IR has. They come after the loop IR's operations in one numbering. OpConst, OpParam
// and the pure operations mean the same in both; on vectors they apply to each lane.
const (
	PVar      = loopir.NumOps + iota // Imm: variable
	PLocalID                         // thread number in the workgroup, I32
	PGroupID                         // number of the workgroup, I32
	PLoad                            // Imm: buffer; A: I32 element number, or vector number where Width is 4
	PShared                          // Imm: array; A: element number, or vector number where Width is 4
	PSplat                           // four times A
	PLane                            // lane Imm of A
	PVec                             // four scalars
	PPhilox                          // six U32 words (counter 4, key 2); U32 of width 4
	PIndexDiv                        // A/B of I32 known to be non-negative; B = 0 gives any value
	PIndexRem
	PHalf // Imm: parameter<<1 | half: a 32-bit half of a Scalar's slot, U32
	// PShuffle is variable A of the thread whose number differs by exclusive or with Imm, a power of two below
	// Subgroup. All threads of the subgroup compute it together, in an SLet.
	PShuffle
	numOps
)

// Node is an expression of the GPU IR, immutable and possibly shared.
type Node struct {
	Op    loopir.Op
	Type  ir.DType
	Width int // 1 or 4
	Args  []*Node
	Imm   uint64
}

// StmtOp is the operation of a statement.
type StmtOp uint8

// The statement kinds.
const (
	SLet       StmtOp = iota // define Var = A, never assigned again
	SVar                     // define Var = A
	SAssign                  // Var = A
	SFor                     // for Var = A; Var < B; Var += C: Body (I32; C > 0)
	SIf                      // if A: Body, else Else
	SBarrier                 // workgroup barrier for Shared, with Ref 1 for buffers too; in uniform control flow
	SUniform                 // define Var = element A of array Ref, one for all threads; a barrier before and after it
	SStore                   // buffer Ref at A (as PLoad) = B
	SSharedSet               // array Ref at A (as PShared) = B; with C, lane C of vector A = B
	SAtomic                  // buffer Ref at A combined with B by Mode
	SFault                   // report event and element B (I32 or I64) where A holds; with C, of I32, C<<32 | B
)

// Stmt is one statement.
type Stmt struct {
	Op   StmtOp
	Var  int
	Ref  int
	Mode loopir.StoreMode // of SAtomic
	A    *Node
	B    *Node
	C    *Node
	Body []Stmt
	Else []Stmt
}

// NewVar adds a variable.
func (p *Program) NewVar(t ir.DType, width int) int {
	p.Vars = append(p.Vars, Var{t, width})
	return len(p.Vars) - 1
}
