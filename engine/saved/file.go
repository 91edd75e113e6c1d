package saved

import (
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/torchlette/torchlette/ir"
)

// A file is a zip with two entries, stored as they are: program.json, and weights.safetensors with the constants by
// name. The writer aligns the data of the weights, so that readers may map them.
const (
	textEntry    = "program.json"
	weightsEntry = "weights.safetensors"
)

// Extent is a part of a file.
type Extent struct{ Offset, Size int64 }

// File is an opened file: the program, and where the elements of its constants are.
type File struct {
	*Program
	Data []Extent // by constant: dense, row-major, little-endian
}

// Open reads a program from a file of size bytes. The elements of the constants are not read.
func Open(r io.ReaderAt, size int64) (*File, *ir.Error) {
	entries, err := readZip(r, size)
	if err != nil {
		return nil, err
	}
	text, ok := entries[textEntry]
	if !ok || text.Size > maxText {
		return nil, wrong("the file has no entry %s of at most %d bytes", textEntry, maxText)
	}
	b, err := read(r, text)
	if err != nil {
		return nil, err
	}
	p, err := Parse(b)
	if err != nil {
		return nil, err
	}
	f := &File{Program: p}
	if len(p.Constants) == 0 {
		return f, nil
	}
	weights, ok := entries[weightsEntry]
	if !ok {
		return nil, wrong("the file has no entry %s, but the program has constants", weightsEntry)
	}
	return f, f.readWeights(r, weights)
}

func read(r io.ReaderAt, e Extent) ([]byte, *ir.Error) {
	if e.Offset < 0 {
		return nil, wrong("a part of the file begins before the file")
	}
	b := make([]byte, e.Size)
	if _, err := r.ReadAt(b, e.Offset); err != nil {
		return nil, wrong("the file ends early, or cannot be read: %v", err)
	}
	return b, nil
}

// readWeights finds the constants in the safetensors entry.
func (f *File) readWeights(r io.ReaderAt, weights Extent) *ir.Error {
	if weights.Size < 8 {
		return wrong("%s is cut off", weightsEntry)
	}
	b, err := read(r, Extent{weights.Offset, 8})
	if err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(weights.Size-8) || n > maxText {
		return wrong("%s has a header of %d bytes, which the file does not have", weightsEntry, n)
	}
	if b, err = read(r, Extent{weights.Offset + 8, int64(n)}); err != nil {
		return err
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(b, &entries); err != nil {
		return wrong("the header of %s is no JSON of the expected form: %v", weightsEntry, err)
	}
	start := weights.Offset + 8 + int64(n)
	for i := range f.Constants {
		e, err := f.extent(&f.Constants[i], entries, weights.Offset+weights.Size-start)
		if err != nil {
			return err
		}
		f.Data = append(f.Data, Extent{start + e.Offset, e.Size})
	}
	return nil
}

// extent finds one constant among the entries of the header.
func (f *File) extent(c *Constant, entries map[string]json.RawMessage, room int64) (Extent, *ir.Error) {
	var e struct {
		DType   string
		Shape   []int64
		Offsets []int64 `json:"data_offsets"`
	}
	text, ok := entries[c.Name]
	if !ok {
		return Extent{}, wrong("%s lacks the constant %q", weightsEntry, cut(c.Name))
	}
	if err := json.Unmarshal(text, &e); err != nil || len(e.Offsets) != 2 {
		return Extent{}, wrong("the entry of %q in %s is wrong", cut(c.Name), weightsEntry)
	}
	size, err := bytesOf(c.DType, c.Shape)
	if err != nil {
		return Extent{}, err
	}
	if e.DType != c.DType.Info().Short || ir.ShapeString(e.Shape) != ir.ShapeString(c.Shape) {
		return Extent{}, wrong("constant %q is %s %s, but %s has %s %s", cut(c.Name), c.DType.Info().Short,
			ir.ShapeString(c.Shape), weightsEntry, cut(e.DType), ir.ShapeString(e.Shape))
	}
	if e.Offsets[0] < 0 || e.Offsets[1] > room || e.Offsets[1]-e.Offsets[0] != size {
		return Extent{}, wrong("constant %q lies outside of the file, or has another size than its shape", cut(c.Name))
	}
	return Extent{e.Offsets[0], size}, nil
}

// Layout of zip files: the end of the directory, its entries, and the headers before the data.
const (
	zipEnd, zipEndSize     = 0x06054b50, 22
	zipEntry, zipEntrySize = 0x02014b50, 46
	zipLocal, zipLocalSize = 0x04034b50, 30
	zipMaxComment          = 1 << 16
	zipMaxDirectory        = 16 << 20
	// zip64 has sizes of 64 bits in a field of their own, where the short ones are zip64Mark.
	zip64Mark, zip64Field          = 1<<32 - 1, 1
	zip64Locator, zip64LocatorSize = 0x07064b50, 20
	zip64EndSize, zip64End         = 56, 0x06064b50
)

// readZip lists the entries of a zip whose entries are stored as they are. Others are refused: nothing is unpacked.
func readZip(r io.ReaderAt, size int64) (map[string]Extent, *ir.Error) {
	tail := min(size, zipEndSize+zipMaxComment)
	b, err := read(r, Extent{size - tail, tail})
	if err != nil {
		return nil, err
	}
	at := len(b) - zipEndSize
	for at >= 0 && binary.LittleEndian.Uint32(b[at:]) != zipEnd {
		at--
	}
	if at < 0 {
		return nil, wrong("the file is no zip, or is cut off")
	}
	n := int64(binary.LittleEndian.Uint32(b[at+12:]))
	start := int64(binary.LittleEndian.Uint32(b[at+16:]))
	if l := at - zip64LocatorSize; l >= 0 && binary.LittleEndian.Uint32(b[l:]) == zip64Locator {
		end, err := read(r, Extent{int64(binary.LittleEndian.Uint64(b[l+8:])), zip64EndSize})
		if err != nil || binary.LittleEndian.Uint32(end) != zip64End {
			return nil, wrong("the zip has no directory")
		}
		n, start = int64(binary.LittleEndian.Uint64(end[40:])), int64(binary.LittleEndian.Uint64(end[48:]))
	}
	if n < 0 || n > zipMaxDirectory || start < 0 || start > size-n {
		return nil, wrong("the zip has a directory of %d bytes at %d, which the file does not have", n, start)
	}
	dir, err := read(r, Extent{start, n})
	if err != nil {
		return nil, err
	}
	entries := map[string]Extent{}
	for len(dir) >= zipEntrySize && binary.LittleEndian.Uint32(dir) == zipEntry {
		names := int(binary.LittleEndian.Uint16(dir[28:]))
		next := zipEntrySize + names + int(binary.LittleEndian.Uint16(dir[30:])) + int(binary.LittleEndian.Uint16(dir[32:]))
		if next > len(dir) {
			break
		}
		name := string(dir[zipEntrySize : zipEntrySize+names])
		if _, twice := entries[name]; twice {
			return nil, wrong("the zip has two entries %q", cut(name))
		}
		if entries[name], err = entry(r, size, dir, name); err != nil {
			return nil, err
		}
		dir = dir[next:]
	}
	return entries, nil
}

// entry finds the data of one entry of the directory.
func entry(r io.ReaderAt, size int64, dir []byte, name string) (Extent, *ir.Error) {
	packed, n := int64(binary.LittleEndian.Uint32(dir[20:])), int64(binary.LittleEndian.Uint32(dir[24:]))
	at := int64(binary.LittleEndian.Uint32(dir[42:]))
	if binary.LittleEndian.Uint16(dir[10:]) != 0 || packed != n || binary.LittleEndian.Uint16(dir[8:])&1 != 0 {
		return Extent{}, wrong("entry %q of the zip is compressed or encrypted, want it stored as it is", cut(name))
	}
	if n == zip64Mark || at == zip64Mark {
		return zip64Entry(r, size, dir, name)
	}
	return local(r, size, at, n, name)
}

// local finds the data behind the header of an entry.
func local(r io.ReaderAt, size, at, n int64, name string) (Extent, *ir.Error) {
	if at < 0 || n < 0 || at > size-zipLocalSize {
		return Extent{}, wrong("entry %q lies outside of the file", cut(name))
	}
	h, err := read(r, Extent{at, zipLocalSize})
	if err != nil {
		return Extent{}, err
	}
	begin := at + zipLocalSize + int64(binary.LittleEndian.Uint16(h[26:])) + int64(binary.LittleEndian.Uint16(h[28:]))
	if binary.LittleEndian.Uint32(h) != zipLocal || n > size-begin {
		return Extent{}, wrong("entry %q lies outside of the file", cut(name))
	}
	return Extent{begin, n}, nil
}

// zip64Entry is entry for one of 4 GiB or more, or behind them.
func zip64Entry(r io.ReaderAt, size int64, dir []byte, name string) (Extent, *ir.Error) {
	names := int(binary.LittleEndian.Uint16(dir[28:]))
	extra := dir[zipEntrySize+names:][:binary.LittleEndian.Uint16(dir[30:])]
	n, at := int64(binary.LittleEndian.Uint32(dir[24:])), int64(binary.LittleEndian.Uint32(dir[42:]))
	for len(extra) >= 4 {
		field := extra[4:]
		id, k := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if k > len(field) {
			break
		}
		if field, extra = field[:k], field[k:]; id != zip64Field {
			continue
		}
		for _, v := range []struct {
			value *int64
			given bool
		}{{&n, n == zip64Mark}, {new(int64), n == zip64Mark}, {&at, at == zip64Mark}} {
			if v.given && len(field) >= 8 {
				*v.value, field = int64(binary.LittleEndian.Uint64(field)), field[8:]
			}
		}
		return local(r, size, at, n, name)
	}
	return Extent{}, wrong("entry %q has no size", cut(name))
}
