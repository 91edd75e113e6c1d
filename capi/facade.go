package main

import "github.com/torchlette/torchlette/engine"

// Short names for types of package engine; layout.go compares them with their C counterparts.
type (
	call      = engine.Call
	scalar    = engine.Scalar
	result    = engine.Out
	queued    = engine.DeferredCall
	gradEvent = engine.BackwardEvent
	function  = engine.Function
	savedInfo = engine.SavedInfo

	sessionValue = engine.SessionValue
)
