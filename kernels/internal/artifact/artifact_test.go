package artifact

import "testing"

func TestSelect(t *testing.T) {
	g := Group{Images: []Image{
		{Major: 8, Minor: 0, Data: []byte("c80")}, {Major: 8, Minor: 6, Data: []byte("c86")},
		{Major: 9, Minor: 0, Data: []byte("c90")}, {Major: 10, Minor: 0, Data: []byte("c100")},
		{Major: 8, Minor: 0, PTX: true, Data: []byte("p80")}, {Major: 9, Minor: 0, PTX: true, Data: []byte("p90")},
	}}
	for _, c := range []struct {
		major, minor int
		want         string
	}{
		{7, 5, ""}, {8, 0, "c80"}, {8, 5, "c80"}, {8, 6, "c86"}, {8, 9, "c86"}, {9, 0, "c90"},
		{10, 0, "c100"}, {10, 3, "c100"}, {12, 0, "p90"}, {11, 0, "p90"},
	} {
		got := ""
		if i := g.Select(c.major, c.minor); i != nil {
			got = string(i.Data)
		}
		if got != c.want {
			t.Errorf("Select(%d, %d) = %q: want %q", c.major, c.minor, got, c.want)
		}
	}
}

func TestSelectDoesNotDependOnOrder(t *testing.T) {
	g := Group{Images: []Image{
		{Major: 9, PTX: true, Data: []byte("p90")}, {Major: 8, PTX: true, Data: []byte("p80")},
		{Major: 8, Minor: 6, Data: []byte("c86")}, {Major: 8, Data: []byte("c80")},
	}}
	for cc, want := range map[int]string{80: "c80", 89: "c86", 90: "p90", 120: "p90"} {
		if got := string(g.Select(cc/10, cc%10).Data); got != want {
			t.Errorf("Select(%d) = %q: want %q", cc, got, want)
		}
	}
}
