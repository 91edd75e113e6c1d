module github.com/torchlette/torchlette

go 1.25
