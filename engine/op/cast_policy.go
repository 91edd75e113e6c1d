package op

// CastPolicy says what autocast does with an operator's float32 and half operands. Float64 is never cast.
type CastPolicy uint8

// The policies.
const (
	KeepTypes  CastPolicy = iota
	CastLower             // to the dtype of the context
	CastFull              // to float32
	CastWidest            // to float32 when one of them is
)
