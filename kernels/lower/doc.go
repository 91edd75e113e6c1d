// Package lower turns a recorded primitive with known layouts into launches of
// kernels. One function a primitive, chosen by a table that a test holds against
// the registry: no primitive without a lowering.
//
// Key types: [Node], [Launch], [Lower]. lower imports kir and engine/op; engine/plan imports lower.
package lower
