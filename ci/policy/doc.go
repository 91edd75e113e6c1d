// Package policy holds the rules of the source tree as tests: which package may import which, where cgo may stand,
// which modules are used, how long lines, files and functions may be, which words the prose uses, and where tests are.
//
// It has no code of its own, and nothing imports it.
package policy
