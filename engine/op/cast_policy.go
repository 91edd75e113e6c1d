package op

// CastPolicy is autocast's rule for an operator's float32 and half operands. Float64 operands are never cast.
type CastPolicy uint8

// The cast policies.
const (
	KeepTypes  CastPolicy = iota
	CastLower             // to the dtype of the context
	CastFull              // to float32
	CastWidest            // to float32 when one of them is
)
