// Package policy holds the rules of the source tree as tests: which package may
// import which, where cgo may stand, which modules are used, and how long files
// and functions may grow. It has no code of its own and nothing imports it.
package policy
