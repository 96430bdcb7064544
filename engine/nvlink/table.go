package nvlink

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/regular"
)

// Table selects the variant that runs a collective of a given size. There is one per GPU model and number of ranks,
// measured by a sweep.
//
//	{
//	 "version": 2,
//	 "note": "where the numbers come from",
//	 "gpu": "NVIDIA H200",
//	 "ranks": 4,
//	 "collectives": {                           for every element width, eager and in graphs
//	  "all_reduce": [
//	   {"bytes": 65536, "algorithm": "one_shot_ll/64"},
//	   {"bytes": 0, "algorithm": "two_shot_ll128/512"}
//	  ]
//	 },
//	 "special": [                               where that is not the best; missing fields mean any
//	  {"collective": "all_reduce", "mode": "eager", "width": 2, "rows": [...]}
//	 ]
//	}
//
// If several rows apply, the most specific counts; the mode takes precedence over the width. A width that was not
// measured uses the rows of the nearest measured width. If the modes of a collective differ, all ranks must capture a
// call, or none.
//
// Files without a version have version 1. Version 1 has no special rows, and its broadcast rows apply from 32 KiB on.
// A name that a collective does not have is replaced by the variant that ran under that name.
type Table struct {
	Version int `json:"version,omitempty"`
	// Note describes the origin of the numbers.
	Note  string `json:"note,omitempty"`
	GPU   string `json:"gpu"`
	Ranks int    `json:"ranks"`
	// Collectives maps names like "all_reduce" to rows of ascending sizes.
	Collectives map[string][]Row `json:"collectives"`
	Special     []Special        `json:"special,omitempty"`
	// AcrossHosts are tables of engine/hosts.
	AcrossHosts json.RawMessage `json:"across_hosts,omitempty"`

	standIn bool // not measured on the GPU that it is used for
}

// TableVersion is the version that this package writes. It reads all earlier versions.
const TableVersion = 2

// Row assigns Algorithm, a name with threads per block like two_shot_ll128/256, to buffers of up to Bytes bytes. Bytes
// is the whole buffer, as in nccl-tests; 0 is any size.
type Row struct {
	Bytes     int64  `json:"bytes"`
	Algorithm string `json:"algorithm"`
}

// Special holds the rows of one collective in one mode (ModeEager, ModeGraph; empty: both) with elements of Width
// bytes (1, 2, 4 or 8; 0: any).
type Special struct {
	Collective string `json:"collective"`
	Mode       string `json:"mode,omitempty"`
	Width      int    `json:"width,omitempty"`
	Rows       []Row  `json:"rows"`
}

// The modes.
const (
	ModeEager = "eager"
	ModeGraph = "graph"
)

//go:embed tables/*.json
var tables embed.FS

// maxTableBytes bounds the size of a GOCCL_TUNING file.
const maxTableBytes = 64 << 20

// LoadTable loads the table for a GPU and a number of ranks: the file at path (GOCCL_TUNING), or with no path an
// embedded table.
func LoadTable(path string, gpu GPU, ranks int) (*Table, error) {
	if path != "" {
		data, err := regular.Read(path, maxTableBytes)
		if err != nil {
			return nil, fmt.Errorf("%w: GOCCL_TUNING: %w", collective.ErrInvalidArgument, err)
		}
		t, err := decodeTable("GOCCL_TUNING="+path, data)
		if err != nil || len(t.Collectives)+len(t.Special) > 0 || t.AcrossHosts == nil {
			return t, err
		}
	}
	return embedded(gpu, ranks)
}

// embedded returns the table of the nearest number of ranks, of the same GPU or, second of two that are as near, of the
// reference, from which it derives one. Below NVLink there is one table for each link kind.
func embedded(gpu GPU, ranks int) (best *Table, err error) {
	entries, err := tables.ReadDir("tables")
	if err != nil {
		return nil, err
	}
	distance := func(t *Table) int {
		d := 2 * max(t.Ranks-ranks, ranks-t.Ranks)
		if t.GPU != gpu.Name {
			d++
		}
		return d
	}
	for _, f := range entries {
		data, err := tables.ReadFile("tables/" + f.Name())
		if err != nil {
			return nil, err
		}
		t, err := decodeTable(f.Name(), data)
		if err != nil {
			return nil, err
		}
		link := LinkKind(NVLink)
		for _, r := range []LinkKind{PCIe, HostMemory} {
			if t.GPU == r.table() {
				link = r
			}
		}
		usable := link == gpu.Link && (link != NVLink || t.GPU == gpu.Name || t.GPU == referenceGPU)
		if usable && (best == nil || distance(t) < distance(best)) {
			best = t
		}
	}
	if best.GPU != gpu.Name && gpu.Link == NVLink {
		best.derive(gpu)
	}
	best.standIn = best.GPU != gpu.Name || best.standIn
	return best, nil
}

// decodeTable reads a table of any version and upgrades it to the current version.
func decodeTable(name string, data []byte) (*Table, error) {
	var t Table
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("%w: tuning table %s: %w", collective.ErrInvalidArgument, name, err)
	}
	if t.Version < 0 || t.Version > TableVersion {
		return nil, fmt.Errorf("%w: tuning table %s has version %d; this goccl reads up to %d: measure one with goccl tune",
			collective.ErrInvalidArgument, name, t.Version, TableVersion)
	}
	if t.Version < 2 {
		if len(t.Special) > 0 {
			return nil, fmt.Errorf("%w: tuning table %s has special rows: they need \"version\": 2",
				collective.ErrInvalidArgument, name)
		}
		for name, rows := range t.Collectives {
			for i := range rows {
				rows[i].Algorithm = upgrade(name, rows[i].Algorithm)
			}
		}
		if rows := t.Collectives["broadcast"]; len(rows) > 0 && (rows[0].Bytes == 0 || rows[0].Bytes >= broadcastSplit) {
			t.Collectives["broadcast"] = append([]Row{{broadcastSplit - 1, "one_shot_ll128"}}, rows...)
		}
		t.Version = TableVersion
	}
	if _, err := t.compile(); err != nil {
		return nil, fmt.Errorf("tuning table %s: %w", name, err)
	}
	return &t, nil
}

// upgrade returns the name of the variant that version 1 ran for a collective under a name that the collective does
// not have.
func upgrade(operation, name string) string {
	c, err := collective.ParseCollective(operation)
	if err != nil || slices.Contains(Variants(c), collective.BaseName(name)) {
		return name
	}
	switch c {
	case collective.AllGather, collective.ReduceScatter, collective.AllToAll:
		return strings.Replace(name, "two_shot", "one_shot", 1)
	case collective.Reduce, collective.Broadcast:
		base := collective.BaseName(name)
		if slices.Contains(variantNames, base) {
			return "two_shot_ll128" + name[len(base):]
		}
	}
	return name
}

// selection is a Table ready for use.
type selection struct {
	rows  [collective.NumCollectives][2][numWidths][]choice // by captured (0, 1) and width
	modes [collective.NumCollectives]bool                   // eager and captured differ
	// forced is set if GOCCL_ALGO names a variant of the collective.
	forced  [collective.NumCollectives]bool
	noLL128 bool // LL128 must not be used: no NVLink between some pair
}

type choice struct {
	bytes int64
	variant
}

// The widths are 1, 2, 4 and 8 bytes; widthOf returns the index.
const numWidths = 4

func widthOf(size int64) int {
	w := 0
	for size > 1 && w < numWidths-1 {
		size >>= 1
		w++
	}
	return w
}

// compile checks every row and lays the rows out for every mode and width.
func (t *Table) compile() (*selection, error) {
	s := new(selection)
	for name, rows := range t.Collectives {
		c, list, err := choices(name, rows)
		if err != nil {
			return nil, err
		}
		for m := range s.rows[c] {
			for w := range s.rows[c][m] {
				s.rows[c][m][w] = list
			}
		}
	}
	var special [collective.NumCollectives][2][numWidths][]choice
	var anyWidth [collective.NumCollectives][2][]choice
	var anyMode [collective.NumCollectives][numWidths][]choice
	for i := range t.Special {
		p := &t.Special[i]
		c, list, err := choices(p.Collective, p.Rows)
		if err != nil {
			return nil, fmt.Errorf("special rows %d: %w", i, err)
		}
		m := slices.Index([]string{ModeEager, ModeGraph, ""}, p.Mode)
		w := slices.Index([]int{1, 2, 4, 8, 0}, p.Width)
		if m < 0 || w < 0 || m == 2 && w == numWidths {
			return nil, fmt.Errorf("%w: special rows %d: mode %q and width %d: want eager or graph, and 1, 2, 4 or 8; at "+
				"least one of them", collective.ErrInvalidArgument, i, p.Mode, p.Width)
		}
		to := &anyMode[c][w&3]
		switch {
		case m < 2 && w < numWidths:
			to = &special[c][m][w]
		case m < 2:
			to = &anyWidth[c][m]
		}
		if *to != nil {
			return nil, fmt.Errorf("%w: special rows %d: there are others for %s, mode %q and width %d",
				collective.ErrInvalidArgument, i, p.Collective, p.Mode, p.Width)
		}
		*to = list
	}
	for c := range s.rows {
		for m := range 2 {
			for w := range numWidths {
				for _, list := range [][]choice{special[c][m][w], anyWidth[c][m], anyMode[c][w], nearest(&special[c][m], w),
					nearest(&anyMode[c], w)} {
					if list != nil {
						s.rows[c][m][w] = list
						break
					}
				}
			}
		}
		s.modes[c] = !slices.EqualFunc(s.rows[c][0][:], s.rows[c][1][:], slices.Equal[[]choice])
	}
	return s, nil
}

// nearest returns the list of the width nearest to w, preferring the narrower; nil if there is none.
func nearest(by *[numWidths][]choice, w int) []choice {
	for d := 1; d < numWidths; d++ {
		if w-d >= 0 && by[w-d] != nil {
			return by[w-d]
		}
		if w+d < numWidths && by[w+d] != nil {
			return by[w+d]
		}
	}
	return nil
}

// choices checks the rows of one collective.
func choices(name string, rows []Row) (collective.Collective, []choice, error) {
	c, err := collective.ParseCollective(name)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", collective.ErrInvalidArgument, err)
	}
	var list []choice
	for i, r := range rows {
		v, err := parseVariant(c, r.Algorithm)
		if err != nil {
			return 0, nil, fmt.Errorf("%s row %d: %w", name, i, err)
		}
		last := i == len(rows)-1
		if last != (r.Bytes == 0) || i > 0 && !last && r.Bytes <= rows[i-1].Bytes {
			return 0, nil, fmt.Errorf("%w: %s row %d: sizes ascend, and the last row, and only it, has size 0",
				collective.ErrInvalidArgument, name, i)
		}
		list = append(list, choice{r.Bytes, v})
	}
	return c, list, nil
}

// avoidLL128 restricts s to variants for ranks without NVLink between every pair. It refuses LL128 rows: there a line
// of 128 bytes need not arrive as a whole.
func (s *selection) avoidLL128() error {
	s.noLL128 = true
	for c := range s.rows {
		for m := range s.rows[c] {
			for w := range s.rows[c][m] {
				for _, r := range s.rows[c][m][w] {
					if err := s.allows(collective.Collective(c), r.variant); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// allows returns nil if the links of these ranks support v.
func (s *selection) allows(c collective.Collective, v variant) error {
	if s.noLL128 && v.protocol == ll128 {
		return fmt.Errorf("%w: %v by %v needs NVLink between every pair of ranks, which they do not have: choose a name "+
			"with ll, or ring (GOCCL_ALGO, GOCCL_TUNING)", collective.ErrUnsupported, c, v)
	}
	return nil
}

// set makes one variant the only choice for a collective.
func (s *selection) set(c collective.Collective, v variant) {
	list := []choice{{0, v}}
	for m := range s.rows[c] {
		for w := range s.rows[c][m] {
			s.rows[c][m][w] = list
		}
	}
	s.modes[c] = false
}

// force makes GOCCL_ALGO's choices the only ones. It ignores names of algorithms outside this package, unless strict.
func (s *selection) force(spec string, strict bool) error {
	list, err := collective.ParseForced(spec)
	if err != nil {
		return err
	}
	for _, f := range list {
		if !strict && !slices.Contains(Variants(f.Collective), collective.BaseName(f.Name)) {
			continue
		}
		v, err := parseVariant(f.Collective, f.Name)
		if err != nil {
			return fmt.Errorf("GOCCL_ALGO: %w", err)
		}
		if err := s.allows(f.Collective, v); err != nil {
			return err
		}
		s.set(f.Collective, v)
		s.forced[f.Collective] = true
	}
	return nil
}

// messages returns the variant of messages.
func (s *selection) messages() variant { return s.pick(collective.AllToAllV, datatype.Int8, 0, 0) }

// pick returns the variant for a buffer of the given bytes with elements of t. Gather and scatter are parts of an
// all-to-all, and have its rows unless they have their own.
func (s *selection) pick(c collective.Collective, t datatype.Type, bytes int64, captured int) variant {
	rows := s.rows[c][captured][widthOf(t.Size())]
	if len(rows) == 0 && (c == collective.Gather || c == collective.Scatter) {
		return s.pick(collective.AllToAll, t, bytes, captured)
	}
	for i := range rows {
		if r := &rows[i]; bytes <= r.bytes || r.bytes == 0 {
			return r.variant
		}
	}
	if s.noLL128 {
		return variant{protocol: ring, threads: ringChannels}
	}
	return variant{twoShot: c == collective.AllReduce || c == collective.Broadcast &&
		bytes >= broadcastSplit, protocol: ll128, threads: 256}
}
