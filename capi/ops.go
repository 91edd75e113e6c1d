package main

import _ "github.com/torchlette/torchlette/engine/op/composite" // registers the operators
