package nvlink

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccl/goccl/algorithm"
)

// Table says which variant runs a collective of a given size: one for each GPU model and number of ranks, measured by a sweep.
type Table struct {
	// Note says where the numbers come from.
	Note  string `json:"note,omitempty"`
	GPU   string `json:"gpu"`
	Ranks int    `json:"ranks"`
	// Collectives maps names like "all_reduce" to rows of ascending sizes.
	Collectives map[string][]Row `json:"collectives"`
}

// Row says: buffers of up to Bytes bytes (the whole buffer, as nccl-tests counts it; 0: of any size) go by Algorithm, a name with threads
// per block, like two_shot_ll128/256.
type Row struct {
	Bytes     int64  `json:"bytes"`
	Algorithm string `json:"algorithm"`
}

//go:embed tables/*.json
var tables embed.FS

// selection is a Table ready for use: rows by collective.
type selection [algorithm.Barrier + 1][]choice

type choice struct {
	bytes int64
	variant
}

// LoadTable picks the table for a GPU and a number of ranks: GOCCL_TUNING names a file; otherwise the embedded one of the same model, or any,
// with the nearest number of ranks.
func LoadTable(gpu string, ranks int) (*Table, error) {
	if path := os.Getenv("GOCCL_TUNING"); path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("GOCCL_TUNING: %w", err)
		}
		return decodeTable(path, data)
	}
	entries, err := tables.ReadDir("tables")
	if err != nil {
		return nil, err
	}
	var best *Table
	distance := func(t *Table) int {
		d := max(t.Ranks-ranks, ranks-t.Ranks)
		if t.GPU != gpu {
			d += 1 << 20
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
		if best == nil || distance(t) < distance(best) {
			best = t
		}
	}
	return best, nil
}

func decodeTable(name string, data []byte) (*Table, error) {
	var t Table
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("%w: tuning table %s: %w", algorithm.ErrInvalidArgument, name, err)
	}
	if _, err := t.compile(); err != nil {
		return nil, fmt.Errorf("tuning table %s: %w", name, err)
	}
	return &t, nil
}

// compile checks every row.
func (t *Table) compile() (*selection, error) {
	var s selection
	for name, rows := range t.Collectives {
		c, err := algorithm.ParseCollective(name)
		if err != nil {
			return nil, err
		}
		for i, r := range rows {
			v, err := parseVariant(r.Algorithm)
			if err != nil {
				return nil, fmt.Errorf("%s row %d: %w", name, i, err)
			}
			last := i == len(rows)-1
			if last != (r.Bytes == 0) || i > 0 && !last && r.Bytes <= rows[i-1].Bytes {
				return nil, fmt.Errorf("%w: %s row %d: sizes ascend, and the last row, and only it, has size 0", algorithm.ErrInvalidArgument, name, i)
			}
			s[c] = append(s[c], choice{r.Bytes, v})
		}
	}
	return &s, nil
}

// force makes GOCCL_ALGO's choices (all_reduce:two_shot_ll128,all_gather:one_shot_ll/64) the only ones. Names that are not ours are left to
// others.
func (s *selection) force(spec string) error {
	for _, f := range strings.Split(spec, ",") {
		if f == "" {
			continue
		}
		coll, name, ok := strings.Cut(f, ":")
		c, err := algorithm.ParseCollective(coll)
		if !ok || err != nil {
			return fmt.Errorf("%w: GOCCL_ALGO=%q: write collective:algorithm, like all_reduce:two_shot_ll128", algorithm.ErrInvalidArgument, f)
		}
		v, err := parseVariant(name)
		if err != nil {
			return err
		}
		s[c] = []choice{{0, v}}
	}
	return nil
}

// pick is the variant for a buffer of bytes.
func (s *selection) pick(c algorithm.Collective, bytes int64) variant {
	for _, r := range s[c] {
		if bytes <= r.bytes || r.bytes == 0 {
			return r.variant
		}
	}
	return variant{twoShot: c == algorithm.AllReduce, protocol: ll128, threads: 256}
}

// Variants lists the algorithms of a collective, for comparisons.
func Variants(c algorithm.Collective) []string {
	switch c {
	case algorithm.AllReduce:
		return slices.Clone(variantNames)
	case algorithm.AllGather, algorithm.ReduceScatter, algorithm.AllToAll:
		return slices.Clone(variantNames[:2])
	}
	return nil
}
