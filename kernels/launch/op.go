package launch

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Op is a kind of device work with its attributes: what one step of a program runs. A kind is a type with these
// methods, which are all that plans, profiles and the reference device need. Each device has code for it.
type Op interface {
	// Label names the launch in profiles and errors; it is no part of its identity.
	Label() string
	// Buffers declares the buffers of a step in order, and how the launch uses them. Devices derive dependences from
	// it.
	Buffers() []loopir.Buf
	// Parameters declares the parameters of a step in order.
	Parameters() []loopir.Param
	// Key identifies what the launch does: launches with equal keys run the same code.
	Key() string
	// Cost counts the work of a launch with these parameters on a device with elements of these widths.
	Cost(params []uint64, width *loopir.Widths) loopir.Cost
	// Interpret is the reference: it runs the launch over canonical host bytes, and refuses a wrong address.
	Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error)
}

var _ = [...]Op{(*loopir.Kernel)(nil), (*Gemm)(nil), (*Attention)(nil), (*Factor)(nil), (*Sort)(nil), Copy{},
	Fill{}}

// Copy copies bytes from its first buffer to its second, which is a different one. Parameters: a byte offset in each,
// and the number of bytes; all are multiples of 4.
type Copy struct{}

// Fill zeroes bytes of a buffer. Parameters: byte offset, and number of bytes; both are multiples of 4.
type Fill struct{}

// Label implements Op.
func (Copy) Label() string { return "copy_bytes" }

// Buffers implements Op.
func (Copy) Buffers() []loopir.Buf {
	return []loopir.Buf{{Type: ir.U8, Access: loopir.Read}, {Type: ir.U8, Access: loopir.Write}}
}

// Parameters implements Op.
func (Copy) Parameters() []loopir.Param {
	return []loopir.Param{{Kind: loopir.Offset, Type: ir.I64}, {Kind: loopir.Offset, Type: ir.I64},
		{Kind: loopir.Size, Type: ir.I64}}
}

// Key implements Op.
func (Copy) Key() string { return "copy" }

// Cost implements Op.
func (Copy) Cost(params []uint64, _ *loopir.Widths) loopir.Cost {
	return loopir.Cost{Bytes: 2 * int64(params[2])}
}

// Interpret implements Op.
func (c Copy) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(c, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	from, err := bytesOf(bufs[0], params[0], params[2])
	if err != nil {
		return loopir.Fault{}, fmt.Errorf("copy: source: %w", err)
	}
	to, err := bytesOf(bufs[1], params[1], params[2])
	if err != nil {
		return loopir.Fault{}, fmt.Errorf("copy: destination: %w", err)
	}
	copy(to, from)
	return loopir.Fault{}, nil
}

// Label implements Op.
func (Fill) Label() string { return "fill_zero" }

// Buffers implements Op.
func (Fill) Buffers() []loopir.Buf { return []loopir.Buf{{Type: ir.U8, Access: loopir.Write}} }

// Parameters implements Op.
func (Fill) Parameters() []loopir.Param {
	return []loopir.Param{{Kind: loopir.Offset, Type: ir.I64}, {Kind: loopir.Size, Type: ir.I64}}
}

// Key implements Op.
func (Fill) Key() string { return "fill" }

// Cost implements Op.
func (Fill) Cost(params []uint64, _ *loopir.Widths) loopir.Cost {
	return loopir.Cost{Bytes: int64(params[1])}
}

// Interpret implements Op.
func (f Fill) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(f, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	to, err := bytesOf(bufs[0], params[0], params[1])
	if err != nil {
		return loopir.Fault{}, fmt.Errorf("fill: %w", err)
	}
	clear(to)
	return loopir.Fault{}, nil
}

// bytesOf returns n bytes of a buffer.
func bytesOf(buf []byte, at, n uint64) ([]byte, error) {
	if at > uint64(len(buf)) || n > uint64(len(buf))-at {
		return nil, fmt.Errorf("bytes %d+%d are outside %d", at, n, len(buf))
	}
	return buf[at : at+n], nil
}

// CheckArguments refuses numbers of parameters and buffers other than o declares.
func CheckArguments(o Op, params []uint64, bufs [][]byte) error {
	if p, b := len(o.Parameters()), len(o.Buffers()); len(params) != p || len(bufs) != b {
		return fmt.Errorf("%s: %d parameters and %d buffers, want %d and %d", o.Label(), len(params), len(bufs), p, b)
	}
	return nil
}
