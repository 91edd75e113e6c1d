package op

// Recurrence names the arithmetic of a recurrent step. x is the input's part of the gates and p the state's, both
// [batch, Gates*hidden]; h is the state before and h' the one after (Hochreiter and Schmidhuber, 1997; Cho et al.,
// 2014):
//
//	LSTM: i, f, o = sigmoid, g = tanh of the four parts of x+p; c' = f*c + i*g; h' = o*tanh(c')
//	GRU:  r, z = sigmoid(x+p); n = tanh(x + r*p); h' = n + z*(h-n)
//	RNNTanh, RNNRelu: h' = tanh(x+p), max(x+p, 0)
type Recurrence int64

// The recurrences.
const (
	LSTM Recurrence = iota
	GRU
	RNNTanh
	RNNRelu
)

// RecurrenceNames are the names of PyTorch's cells.
var RecurrenceNames = []string{"lstm", "gru", "rnn_tanh", "rnn_relu"}

// Gates is the number of parts of x.
func (r Recurrence) Gates() int64 { return [...]int64{4, 3, 1, 1}[r] }

// Kept is the number of planes [batch, hidden] of a step that the gradient reads: i, f, g, o and tanh(c') of an LSTM;
// r, z, n and n's part of p of a GRU; else h' itself.
func (r Recurrence) Kept() int64 { return [...]int64{5, 4, 1, 1}[r] }

// Plain reports a recurrence without gates, whose gradient reads the new state.
func (r Recurrence) Plain() bool { return r >= RNNTanh }
