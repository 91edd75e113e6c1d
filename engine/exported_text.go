package engine

import (
	"encoding/json"
	"math"
	"slices"
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
	Body     *bodyText      `json:"body,omitempty"`
}

type bodyText struct {
	Inputs  []valueText `json:"inputs"`
	Steps   []stepText  `json:"steps"`
	Results []string    `json:"results"`
}

// textWriter numbers the values of a recorded function: those of a body begin where its loop stands.
type textWriter struct {
	e      *Engine
	x      *exporting
	number map[valueID]int
	unread map[valueID]bool
}

// text writes the recorded function.
func (x *exporting) text(e *Engine, results []valueID, changed []bool) ([]byte, *ir.Error) {
	t := exportedText{Outputs: []string{}, Changed: changed}
	w := &textWriter{e: e, x: x, number: map[valueID]int{}, unread: x.unread(results)}
	var err *ir.Error
	if t.Steps, err = w.steps(x.steps, x.inputs+x.known+len(x.found)); err != nil {
		return nil, err
	}
	for _, id := range results {
		t.Outputs = append(t.Outputs, w.ref(id))
	}
	b, failed := json.Marshal(t)
	if failed != nil {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: export: %v", failed)
	}
	return b, nil
}

// of is the number of a value in the text.
func (w *textWriter) of(id valueID) int {
	switch {
	case id >= firstResult:
		return w.number[id]
	case id < 0:
		return w.x.inputs + w.x.known - 1 - int(id)
	}
	return int(id)
}

func (w *textWriter) ref(id valueID) string { return "%" + strconv.Itoa(w.of(id)) }

// steps writes steps whose results are numbered from next on.
func (w *textWriter) steps(steps []exportedStep, next int) ([]stepText, *ir.Error) {
	list := []stepText{}
	for i := range steps {
		s := &steps[i]
		if len(s.outs) > 0 && w.unread[s.first] ||
			s.sig.Full == "engine.requires_grad_" && w.unread[valueID(s.call.In[0].ID)] {
			continue
		}
		y, err := w.step(s, next)
		if err != nil {
			return nil, err
		}
		for k := range s.outs {
			w.number[s.first+valueID(k)] = next
			next++
		}
		list = append(list, y)
	}
	return list, nil
}

func (w *textWriter) step(s *exportedStep, next int) (stepText, *ir.Error) {
	call := s.call
	call.In = slices.Clone(call.In)
	for k := range call.In {
		call.In[k].ID = w.of(valueID(call.In[k].ID))
	}
	y := stepText{Op: s.sig.Full, Args: map[string]any{}, Out: []valueText{}, NoGrad: s.noGrad}
	args, err := saved.Unflatten(s.sig, &call)
	if err != nil {
		return y, err
	}
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
		y.At = w.e.recorder.sourceLocs.line(w.e.profile.sourceLoc(s.at))
	}
	if s.body != nil {
		y.Body, err = w.body(s.body, next)
	}
	return y, err
}

func (w *textWriter) body(b *exportedBody, next int) (*bodyText, *ir.Error) {
	t := &bodyText{Inputs: []valueText{}, Results: []string{}}
	for k, v := range b.inputs {
		w.number[b.first+valueID(k)] = next + k
		t.Inputs = append(t.Inputs, describeText(v.dtype, v.shape))
	}
	var err *ir.Error
	t.Steps, err = w.steps(b.steps, next+len(b.inputs))
	for _, id := range b.results {
		t.Results = append(t.Results, w.ref(id))
	}
	return t, err
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
