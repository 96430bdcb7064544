package nvlink

import "testing"

// A GPU that was measured with some numbers of ranks takes the reference's tables for the others.
func TestTablesOfOtherRanks(t *testing.T) {
	h100 := GPU{Name: "NVIDIA H100 80GB HBM3", Major: 9, Link: NVLink}
	for ranks, measured := range map[int]bool{2: false, 4: true, 8: false} {
		got, err := embedded(h100, ranks)
		if err != nil {
			t.Fatal(err)
		}
		if got.Ranks != ranks || got.standIn == measured {
			t.Errorf("%d ranks: a table of %d ranks, %q", ranks, got.Ranks, got.Note)
		}
	}
}
