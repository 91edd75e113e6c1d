package tile

// GemmOptions is a tile configuration. A workgroup computes BM x BN of C; its
// threads are cut into groups of 32 which compute WM x WN, each thread TM x TN
// as 4x4 pieces spread over that tile.
type GemmOptions struct {
	BM, BN, BK int
	WM, WN     int
	TM, TN     int
	// Double: two shared buffers, the next block's loads are in flight during the arithmetic.
	Double bool
	// VecA, VecB, VecC: 16-byte accesses, right when the unit stride's length, the other
	// strides and the offset are multiples of four.
	VecA, VecB, VecC bool
	// Rolled keeps loops in the text, for devices where compiling is dear.
	Rolled bool
	// Dot is the path for M == 1 or N == 1: a workgroup of Dot.Lanes threads an output.
	Dot               bool
	Lanes             int
	Workgroup         int
	MaxWorkgroupBytes int
	I64               bool
}
