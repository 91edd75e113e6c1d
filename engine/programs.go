package engine

import (
	"encoding/json"
	"os"

	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// programs maps numbers to the saved programs that callers opened.
type programs map[uint64]*savedProgram

// savedProgram is a program with the file of its constants, nil for one that was parsed.
type savedProgram struct {
	*saved.File
	file  *os.File
	pages *pages // of the file; nil: constants are copied
}

// ParseProgram checks the text of a program and gives it a number.
func (e *Engine) ParseProgram(text []byte) (id uint64, err *ir.Error) {
	p, err := saved.Parse(text)
	if err != nil {
		return 0, err
	}
	return e.addProgram(&savedProgram{File: &saved.File{Program: p}})
}

// OpenProgram opens a file and gives its program a number.
func (e *Engine) OpenProgram(path string) (id uint64, err *ir.Error) {
	f, x := os.Open(path)
	if x != nil {
		return 0, ir.Errorf(ir.ErrRuntime, "%v", x)
	}
	info, x := f.Stat()
	if x != nil || info.IsDir() {
		_ = f.Close()
		return 0, ir.Errorf(ir.ErrRuntime, "open %s: it is no file", path)
	}
	p, err := saved.Open(f, info.Size())
	if err != nil {
		_ = f.Close()
		return 0, err
	}
	return e.addProgram(&savedProgram{File: p, file: f})
}

func (e *Engine) addProgram(p *savedProgram) (id uint64, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	id = e.newID()
	if e.programs == nil {
		e.programs = programs{}
	}
	e.programs[id] = p
	return id, nil
}

// savedProgram returns the program of a number.
func (e *Engine) savedProgram(id uint64) (*savedProgram, *ir.Error) {
	p := e.programs[id]
	if p == nil {
		return nil, ir.Errorf(ir.ErrHandle, "saved program %d is unknown", id)
	}
	return p, nil
}

// savedText is the text of a program, or its listing or extents as JSON.
func (e *Engine) savedText(id uint64, kind string) ([]byte, *ir.Error) {
	p, err := e.savedProgram(id)
	if err != nil || kind == "program" {
		return p.text(), err
	}
	var v any = p.extents()
	if kind == "program_listing" {
		v = p.Listing()
	}
	b, x := json.Marshal(v)
	if x != nil {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: info: %v", x)
	}
	return b, nil
}

func (p *savedProgram) text() []byte {
	if p == nil {
		return nil
	}
	return p.Text
}

// extents lists where in the file the elements of each constant are: offset and size. It is empty without a file.
func (p *savedProgram) extents() [][2]int64 {
	list := [][2]int64{}
	for _, x := range p.Data {
		list = append(list, [2]int64{x.Offset, x.Size})
	}
	return list
}

// ProgramOf returns the program of a number.
func (e *Engine) ProgramOf(id uint64) (p *saved.Program, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	x, err := e.savedProgram(id)
	if err != nil {
		return nil, err
	}
	return x.Program, nil
}

// ProgramConstant reads constant i of an opened program to a tensor on the CPU, or makes one over the pages of its
// file.
func (e *Engine) ProgramConstant(id uint64, i int, out *Out) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	p, err := e.savedProgram(id)
	if err != nil {
		return err
	}
	if p.file == nil || i < 0 || i >= len(p.Data) {
		return ir.Errorf(ir.ErrIndex, "saved program: its file has no constant %d", i)
	}
	c, at := &p.Constants[i], p.Data[i]
	if p.pages != nil && p.pages.hold(at, c.DType) {
		return e.overPages(p.pages, c, at, out)
	}
	b := make([]byte, at.Size)
	if _, x := p.file.ReadAt(b, at.Offset); x != nil {
		return ir.Errorf(ir.ErrRuntime, "constant %q: %v", c.Name, x)
	}
	return e.fromData(c.DType, ir.CPU, c.Shape, b, false, 0, out)
}

// forgetProgram releases a program; unknown ones are ignored.
func (e *Engine) forgetProgram(id uint64) {
	if p := e.programs[id]; p != nil {
		delete(e.programs, id)
		if p.file != nil {
			_ = p.file.Close()
		}
		if p.pages != nil {
			p.pages.release()
		}
	}
}
