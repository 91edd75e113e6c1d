package wgpu_test
import ("testing";"fmt";"github.com/torchlette/torchlette/gpu")
func TestPoly(t *testing.T) { d := open(t, gpu.Options{}); fmt.Printf("poly %b %+v\n", d.Stats()["own_functions"], d.Caps()); d.Close() }
