package engine

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// exportedText is the text of a recorded function; its steps are those that saved.Parse reads. The caller knows the
// inputs and names the constants.
type exportedText struct {
	Changed []bool     `json:"changed"` // inputs and constants that the function writes to
	Steps   []stepText `json:"steps"`
	Outputs []string   `json:"outputs"`
}

type valueText struct {
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
}

type stepText struct {
	Op       string         `json:"op"`
	Args     map[string]any `json:"args"`
	Out      []valueText    `json:"out"`
	Mode     string         `json:"mode,omitempty"`
	NoGrad   bool           `json:"no_grad,omitempty"`
	Autocast *[2]string     `json:"autocast,omitempty"`
	At       string         `json:"at,omitempty"`
}

// text writes the recorded function.
func (x *exporting) text(e *Engine, results []valueID, changed []bool) ([]byte, *ir.Error) {
	t := exportedText{Steps: []stepText{}, Outputs: []string{}, Changed: changed}
	constants := x.known + len(x.found)
	number := func(id valueID) int {
		switch {
		case id >= firstResult:
			return x.inputs + constants + int(id-firstResult)
		case id < 0:
			return x.inputs + x.known - 1 - int(id)
		}
		return int(id)
	}
	for i := range x.steps {
		s := &x.steps[i]
		for k := range s.call.In {
			s.call.In[k].ID = number(valueID(s.call.In[k].ID))
		}
		args, err := saved.Unflatten(s.sig, &s.call)
		if err != nil {
			return nil, err
		}
		y := stepText{Op: s.sig.Full, Args: map[string]any{}, Out: []valueText{}, NoGrad: s.noGrad}
		for _, a := range args {
			y.Args[a.Name] = argText(a.Value)
		}
		for _, o := range s.outs {
			y.Out = append(y.Out, describeText(o.dtype, o.shape))
		}
		if s.inPlace {
			y.Mode = "in_place"
		}
		if s.autocast != [2]ir.DType{} {
			y.Autocast = &[2]string{autocastText(s.autocast[0]), autocastText(s.autocast[1])}
		}
		if s.at != 0 {
			y.At = e.recorder.sourceLocs.line(e.profile.sourceLoc(s.at))
		}
		t.Steps = append(t.Steps, y)
	}
	for _, id := range results {
		t.Outputs = append(t.Outputs, "%"+strconv.Itoa(number(id)))
	}
	b, err := json.Marshal(t)
	if err != nil {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: export: %v", err)
	}
	return b, nil
}

func describeText(d ir.DType, shape []int64) valueText {
	if shape == nil {
		shape = []int64{}
	}
	return valueText{d.String(), shape}
}

func autocastText(d ir.DType) string {
	if d == ir.InvalidDType {
		return ""
	}
	return d.String()
}

// argText is the value of an argument as JSON writes it.
func argText(v any) any {
	switch v := v.(type) {
	case saved.Ref:
		return "%" + strconv.Itoa(int(v))
	case saved.Supplied:
		return "$" + strconv.Itoa(int(v))
	case float64:
		switch {
		case math.IsNaN(v):
			return "nan"
		case math.IsInf(v, 1):
			return "inf"
		case math.IsInf(v, -1):
			return "-inf"
		}
		return json.RawMessage(floatText(v))
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = argText(v[i])
		}
		return list
	}
	return v
}

// floatText writes a float so that it is read as one: with a point or an exponent.
func floatText(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	for _, c := range s {
		if c == '.' || c == 'e' {
			return s
		}
	}
	return s + ".0"
}
