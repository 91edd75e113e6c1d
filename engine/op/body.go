package op

import (
	"sync"

	"github.com/torchlette/torchlette/ir"
)

// Body is a program that is an attribute of a primitive, such as the iteration of a loop. Operands and results are
// dense whole values.
type Body interface {
	// Operands and Outcomes are the abstract values of operands and results, in order.
	Operands() []ir.AvalID
	Outcomes() []ir.AvalID
	// DrawsTaken is how many Philox offsets one run takes.
	DrawsTaken() uint64
	// Like reports that two bodies compute the same. Bodies that are alike have equal digests.
	Like(Body) bool
	Digest() uint64
	// DataError is the error for data that a kernel of the body refuses: event is the number of its node.
	DataError(event int, element int64) *ir.Error
	// Events counts the numbers of the body's nodes. They begin at 1; those of a body in it follow its loop's.
	Events() int
}

// bodies interns bodies. Like the table of layouts, it grows only with the number of distinct bodies.
var bodies = struct {
	mu       sync.Mutex
	byDigest map[uint64][]int64
	list     []Body
}{byDigest: map[uint64][]int64{}}

// InternBody numbers a body, which must not change afterwards.
func InternBody(b Body) int64 {
	bodies.mu.Lock()
	defer bodies.mu.Unlock()
	for _, id := range bodies.byDigest[b.Digest()] {
		if bodies.list[id].Like(b) {
			return id
		}
	}
	id := int64(len(bodies.list))
	bodies.list = append(bodies.list, b)
	bodies.byDigest[b.Digest()] = append(bodies.byDigest[b.Digest()], id)
	return id
}

// BodyOf returns the body numbered id, nil for none.
func BodyOf(id int64) Body {
	bodies.mu.Lock()
	defer bodies.mu.Unlock()
	if id < 0 || id >= int64(len(bodies.list)) {
		return nil
	}
	return bodies.list[id]
}

// BodyBuilder is a Builder that derives bodies from bodies and reserves several draws. Derived bodies depend on the
// arguments alone.
type BodyBuilder interface {
	// DrawMany reserves n draws in program order and returns the seed and the first Philox offset.
	DrawMany(n int64) (seed, drawOffset Val)
	// GradientBody is one iteration of a loop's gradient. l is the loop; need says which operands want a gradient, and
	// given which results besides the last carries have a cotangent.
	//
	// Its carries are the cotangents of the float carries, and the gradients, added up, of the operands that all
	// iterations read and that need one. It takes apart the loop's xs, the loop's carries before the iteration, and the
	// cotangents that are given. Its stacked results are the cotangents of the xs that need one.
	//
	// Operands after the carries that nothing reads are left out: read says which are there.
	GradientBody(l *Loop, need, given []bool) (id int64, read []bool)
	// TangentBody is one iteration of l with tangents. tangents says which operands have one. Its operands are the
	// carries, the xs, and the operands that all iterations read, each group followed by the group's tangents; its
	// results have the same order. It returns which carries and further results have a tangent. apart is for the loops
	// in the body, see JVPCall.
	TangentBody(l *Loop, tangents []bool, apart bool) (id int64, carries, ys []bool)
	// LinearBodies splits body id, the TangentBody of l, into a body of values and a body of tangents. nil: it cannot.
	LinearBodies(l *Loop, id int64, tangents []bool) *LinearBodies
	// OnTape reports that an operation on v is recorded on the tape.
	OnTape(v Val) bool
	// BatchBody is the body of l for a batch: operands and results have the batch as their first dims, except for operands
	// without it.
	BatchBody(l *Loop, batched []bool, sizes []int64) int64
	// LoopReason returns the reason why a loop cannot run on a device other than the CPU; "" if it can.
	LoopReason(l *Loop, dev ir.DeviceID) string
	// MaskedBody is the body of a loop that ends by a condition, where the condition is one bool for each element of a
	// batch: whether any is true comes before the loop's carries, and an element keeps its carries once its own is false.
	MaskedBody(l *Loop) int64
	// SegmentBody is a loop of n iterations as a body: it takes n places of each xs at once.
	SegmentBody(l *Loop, n int64) int64
}

// LinearBodies are two bodies that compute one iteration of a loop and its tangents.
//
// Values has the operands and results of the loop's body. Behind them it returns the values that the tangents need.
//
// Carries and results of Linear are tangents. Its xs are the values kept, the loop's xs, and the tangents of those. All
// its iterations read what the loop's iterations read, and the tangents of that.
type LinearBodies struct {
	Values, Linear int64
	Kept           int    // how many values an iteration keeps
	Bytes          int64  // of them
	Read           []bool // by operand of Linear: operands that nothing reads are left out
}

// Loop describes a node of the primitive "loop". Operands: the carries, what the iterations take apart (xs [length,
// ...]), what all iterations read, and with draws seed and first Philox offset. Results: the last carries, the
// iterations' further results stacked (ys [length, ...]), and with Keep the carries before each iteration, stacked.
type Loop struct {
	ID          int64 // of the body, whose operands and results come in this order
	Carries, Xs int
	Length      int64
	Reverse     bool // iterations go from the last place of xs and ys to the first
	Keep        bool
	// While: the first carry is a bool. Iterations end when it is false, or after Length of them. There are no xs
	// and no ys.
	While bool
}

// Attr is the attribute list of the node.
func (l *Loop) Attr() []int64 {
	return []int64{l.ID, int64(l.Carries), int64(l.Xs), l.Length, truth(l.Reverse), truth(l.Keep),
		truth(l.While)}
}

// LoopOf reads an attribute list.
func LoopOf(attr []int64) *Loop {
	return &Loop{ID: attr[0], Carries: int(attr[1]), Xs: int(attr[2]), Length: attr[3], Reverse: attr[4] != 0,
		Keep: attr[5] != 0, While: attr[6] != 0}
}

// Body is the body of l.
func (l *Loop) Body() Body { return BodyOf(l.ID) }

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
