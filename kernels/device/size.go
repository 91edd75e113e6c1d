package device

// SizeClass rounds the size of a buffer to the class that pools keep it in: 256-byte steps up to 4 KiB, then eight
// classes for each power of two, so that rounding wastes at most an eighth.
func SizeClass(n int64) int64 {
	if n <= 4096 {
		return (n + 255) &^ 255
	}
	step := int64(512)
	for step*16 < n {
		step *= 2
	}
	return (n + step - 1) / step * step
}
