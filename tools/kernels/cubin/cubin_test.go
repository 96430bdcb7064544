package cubin

import (
	"os"
	"testing"

	"github.com/goccl/goccl/test/mutate"
)

func image(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestInspect(t *testing.T) {
	for _, arch := range []string{"sm80", "sm90", "sm100"} {
		list, err := Inspect(image(t, "../../../kernels/examples/examples_"+arch+".cubin"))
		if err != nil {
			t.Fatal(err)
		}
		byName := make(map[string]Kernel)
		for _, k := range list {
			byName[k.Name] = k
		}
		// Its two values alone need more than the ABI's own registers.
		if k := byName["tutorial_pong"]; k.Registers < 10 || k.Code < 128 || k.Local != 0 {
			t.Errorf("%s: %+v", arch, k)
		}
		if len(list) < 6 {
			t.Errorf("%s: %d kernels", arch, len(list))
		}
	}
}

func TestInspectGarbage(t *testing.T) {
	good := image(t, "../../../kernels/examples/examples_sm90.cubin")
	for _, bad := range [][]byte{nil, []byte("ELF"), good[:63], good[:200], append([]byte{}, make([]byte, 4096)...)} {
		if _, err := Inspect(bad); err == nil {
			t.Errorf("%d bytes of garbage were accepted", len(bad))
		}
	}
}

// FuzzInspect: no input makes the parser panic.
func FuzzInspect(f *testing.F) {
	f.Add(image(f, "../../../kernels/examples/examples_sm90.cubin"))
	f.Add([]byte("\x7fELF"))
	mutate.Fuzz(f, func(t *testing.T, data []byte) {
		_, _ = Inspect(data)
	})
}
