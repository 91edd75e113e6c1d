package main

import _ "github.com/torchlette/torchlette/engine/op/comp" // registers the operators
