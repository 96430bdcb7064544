// Package cubin reads what a kernel needs of the hardware from a compiled image. It is pure.
//
// A cubin is an ELF file. For each kernel K it has .text.K (whose sh_info holds the register count in its top byte),
// optionally .nv.shared.K (static shared memory) and .nv.info with a list of attributes, of which the frame size (stack
// bytes per thread: spills and local arrays) is read here.
package cubin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Kernel is the resource use of one entry point.
type Kernel struct {
	Name      string
	Registers int // per thread
	Shared    int // static bytes per block
	Local     int // stack bytes per thread: 0 when nothing is spilled or indexed
	Code      int // bytes of machine code
}

// Attribute formats and numbers of .nv.info, as far as they are read.
const (
	formatSized     = 0x04 // the value is size-prefixed: u8 format, u8 attribute, u16 size, size bytes
	attrFrameSize   = 0x11 // u32 symbol index, u32 bytes
	attrRegCount    = 0x2f // u32 symbol index, u32 registers; newer cubins leave sh_info's field empty
	flagEntryPoint  = 0x10 // st_other bit of a kernel's symbol (STO_CUDA_ENTRY)
	offsetVersion   = 20   // e_version, which newer compilers raise above 1 and debug/elf refuses
	registersShift  = 24
	textPrefix      = ".text."
	sharedPrefix    = ".nv.shared."
	symbolEntrySize = 24
)

// Inspect lists the kernels of a cubin, sorted by name.
func Inspect(image []byte) ([]Kernel, error) {
	if len(image) < 64 || !bytes.HasPrefix(image, []byte(elf.ELFMAG)) {
		return nil, fmt.Errorf("cubin: %d bytes are not an ELF file", len(image))
	}
	patched := slices.Clone(image)
	binary.LittleEndian.PutUint32(patched[offsetVersion:], uint32(elf.EV_CURRENT))
	f, err := elf.NewFile(bytes.NewReader(patched))
	if err != nil {
		return nil, fmt.Errorf("cubin: %w", err)
	}
	entries, names, err := symbols(f)
	if err != nil {
		return nil, err
	}
	frames, registers, err := attributes(f, names)
	if err != nil {
		return nil, err
	}
	var out []Kernel
	for _, s := range f.Sections {
		name, ok := strings.CutPrefix(s.Name, textPrefix)
		if !ok || !entries[name] {
			continue
		}
		k := Kernel{Name: name, Registers: int(s.Info >> registersShift), Local: frames[name], Code: int(s.Size)}
		if r, ok := registers[name]; ok {
			k.Registers = r
		}
		if sh := f.Section(sharedPrefix + name); sh != nil {
			k.Shared = int(sh.Size)
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Kernel) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// symbols returns the entry points and every symbol's name by index. debug/elf drops index 0 and the order matters, so
// the table is read here.
func symbols(f *elf.File) (entries map[string]bool, names []string, err error) {
	sec := f.SectionByType(elf.SHT_SYMTAB)
	if sec == nil || int(sec.Link) >= len(f.Sections) {
		return nil, nil, fmt.Errorf("cubin: no symbol table")
	}
	table, err := sec.Data()
	if err != nil {
		return nil, nil, fmt.Errorf("cubin: symbol table: %w", err)
	}
	text, err := f.Sections[sec.Link].Data()
	if err != nil {
		return nil, nil, fmt.Errorf("cubin: string table: %w", err)
	}
	entries = make(map[string]bool)
	for ; len(table) >= symbolEntrySize; table = table[symbolEntrySize:] {
		off := int(binary.LittleEndian.Uint32(table))
		if off >= len(text) {
			return nil, nil, fmt.Errorf("cubin: symbol name at %d of %d", off, len(text))
		}
		name, _, _ := bytes.Cut(text[off:], []byte{0})
		names = append(names, string(name))
		if table[5]&flagEntryPoint != 0 {
			entries[string(name)] = true
		}
	}
	return entries, names, nil
}

// attributes returns the stack bytes and the registers of every function that .nv.info names.
func attributes(f *elf.File, names []string) (frames, registers map[string]int, err error) {
	frames, registers = make(map[string]int), make(map[string]int)
	sec := f.Section(".nv.info")
	if sec == nil {
		return frames, registers, nil
	}
	data, err := sec.Data()
	if err != nil {
		return nil, nil, fmt.Errorf("cubin: .nv.info: %w", err)
	}
	for len(data) >= 4 {
		format, attr, size := data[0], data[1], int(binary.LittleEndian.Uint16(data[2:]))
		data = data[4:]
		if format != formatSized {
			continue // the value is in the header itself
		}
		if size > len(data) {
			return nil, nil, fmt.Errorf("cubin: .nv.info: attribute %#x of %d bytes where %d are left", attr, size, len(data))
		}
		into := map[byte]map[string]int{attrFrameSize: frames, attrRegCount: registers}[attr]
		if into != nil && size >= 8 {
			index := int(binary.LittleEndian.Uint32(data))
			if index >= len(names) {
				return nil, nil, fmt.Errorf("cubin: .nv.info: symbol %d of %d", index, len(names))
			}
			into[names[index]] = int(binary.LittleEndian.Uint32(data[4:]))
		}
		data = data[size:]
	}
	return frames, registers, nil
}
