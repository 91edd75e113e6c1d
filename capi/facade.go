package main

import "github.com/torchlette/torchlette/engine"

// The facade's types under short names; layout_test.go compares them with their C
// counterparts.
type (
	call      = engine.Call
	scalar    = engine.Scalar
	result    = engine.Out
	gradEvent = engine.BackwardEvent
)
