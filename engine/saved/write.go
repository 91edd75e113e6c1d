package saved

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"slices"

	"github.com/torchlette/torchlette/ir"
)

// dataAlignment is the alignment of the data of an entry in a file.
const dataAlignment = 64

// WriteFile writes a program with other numbers and constants to an empty file. contents gives the elements of a
// constant; one at a time is in memory.
func WriteFile(f io.WriteSeeker, p *Program, numbers []float64, contents func(i int) ([]byte, *ir.Error)) *ir.Error {
	text, err := p.withNumbers(numbers)
	if err != nil {
		return err
	}
	header, order, size, err := p.header()
	if err != nil {
		return err
	}
	w := &zipWriter{f: f}
	w.begin(textEntry, int64(len(text)))
	w.data(text)
	w.end()
	w.begin(weightsEntry, int64(len(header))+size)
	w.data(header)
	for _, i := range order {
		b, err := contents(i)
		if err != nil {
			return err
		}
		w.data(b)
	}
	w.end()
	w.directory()
	if w.err != nil {
		return ir.Errorf(ir.ErrRuntime, "saved program: %v", w.err)
	}
	return nil
}

// withNumbers is the text with other values of the numbers.
func (p *Program) withNumbers(numbers []float64) ([]byte, *ir.Error) {
	var all map[string]json.RawMessage
	x := json.Unmarshal(p.Text, &all)
	list := []map[string]any{}
	for i, n := range p.Numbers {
		list = append(list, map[string]any{"name": n.Name, "dtype": n.DType.String(), "value": numbers[i]})
	}
	if x == nil {
		all["numbers"], x = json.Marshal(list)
	}
	text, y := json.Marshal(all)
	if x != nil || y != nil {
		return nil, wrong("a number has no text: %v", numbers)
	}
	return text, nil
}

// header is the header of the weights, with the order of the constants, the widest elements first, and their size.
func (p *Program) header() (b []byte, order []int, size int64, err *ir.Error) {
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	for i := range p.Constants {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return p.Constants[b].DType.Size() - p.Constants[a].DType.Size()
	})
	all := map[string]entry{}
	for _, i := range order {
		c := &p.Constants[i]
		n := ir.Numel(c.Shape) * int64(c.DType.Size())
		all[c.Name] = entry{c.DType.Info().Short, append([]int64{}, c.Shape...), [2]int64{size, size + n}}
		size += n
	}
	text, x := json.Marshal(all)
	if x != nil {
		return nil, nil, 0, ir.Errorf(ir.ErrInternal, "BUG: saved program: %v", x)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), order, size, nil
}

// zipWriter writes a zip of stored entries. All of them have sizes of 64 bits.
type zipWriter struct {
	f       io.WriteSeeker
	at      int64
	entries []zipItem
	err     error
}

type zipItem struct {
	name    string
	at, len int64
	sum     uint32
}

func (w *zipWriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.f.Write(b)
	}
	w.at += int64(len(b))
}

// begin writes the header of an entry of size bytes, with padding before its data.
func (w *zipWriter) begin(name string, size int64) {
	const field = 20 // of the sizes
	padding := int(-(w.at + zipLocalSize + int64(len(name)) + field + 4) & (dataAlignment - 1))
	x := &zipItem{name: name, at: w.at, len: size}
	b := x.fields(binary.LittleEndian.AppendUint32(nil, zipLocal))
	b = binary.LittleEndian.AppendUint16(b, uint16(field+4+padding))
	b = append(b, name...)
	b = binary.LittleEndian.AppendUint16(b, zip64Field)
	b = binary.LittleEndian.AppendUint16(b, field-4)
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	b = append(b, 'L', 'T', byte(padding), 0)
	w.write(append(b, make([]byte, padding)...))
	w.entries = append(w.entries, *x)
}

// fields appends what both headers of an entry have: version, flags, method, time, sum, sizes, and the name's length.
func (x *zipItem) fields(b []byte) []byte {
	const version, day = 45, 0x21 // the first day of the format
	for _, v := range []uint16{version, 0, 0, 0, day} {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	for _, v := range []uint32{x.sum, zip64Mark, zip64Mark} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return binary.LittleEndian.AppendUint16(b, uint16(len(x.name)))
}

// data writes data of the entry that was begun last.
func (w *zipWriter) data(b []byte) {
	x := &w.entries[len(w.entries)-1]
	x.sum = crc32.Update(x.sum, crc32.IEEETable, b)
	w.write(b)
}

// end writes the sum of the entry to its header.
func (w *zipWriter) end() {
	const place = 14
	x, here := &w.entries[len(w.entries)-1], w.at
	w.seek(x.at + place)
	w.write(binary.LittleEndian.AppendUint32(nil, x.sum))
	w.seek(here)
}

func (w *zipWriter) seek(at int64) {
	if w.err == nil {
		_, w.err = w.f.Seek(at, io.SeekStart)
	}
	w.at = at
}

// directory writes the directory and the ends of the file.
func (w *zipWriter) directory() {
	start := w.at
	for i := range w.entries {
		x := &w.entries[i]
		b := x.fields(append(binary.LittleEndian.AppendUint32(nil, zipEntry), 45, 0))
		b = binary.LittleEndian.AppendUint16(b, 28) // the field of sizes and place
		b = append(b, make([]byte, 10)...)          // comment, disk, attributes
		b = binary.LittleEndian.AppendUint32(b, zip64Mark)
		b = append(b, x.name...)
		b = append(b, zip64Field, 0, 24, 0)
		for _, v := range []int64{x.len, x.len, x.at} {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		w.write(b)
	}
	size, end, n := w.at-start, w.at, uint64(len(w.entries))
	b := binary.LittleEndian.AppendUint32(nil, zip64End)
	b = binary.LittleEndian.AppendUint64(b, zip64EndSize-12)
	b = append(b, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for _, v := range []uint64{n, n, uint64(size), uint64(start)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, zip64Locator)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(end))
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint32(b, zipEnd)
	b = append(b, 0, 0, 0, 0, byte(n), 0, byte(n), 0)
	b = binary.LittleEndian.AppendUint32(b, zip64Mark)
	b = binary.LittleEndian.AppendUint32(b, zip64Mark)
	w.write(append(b, 0, 0))
}
