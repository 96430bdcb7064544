package executor

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccl/goccl/plan/programs"
)

// A certificate counts for the plan and the verifier that it names, in a file that nobody else can write.
func TestCertificates(t *testing.T) {
	p, err := programs.Build("allreduce_ring", programs.Options{Ranks: 3, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "certificates")
	t.Setenv("GOCCL_PLAN_CERTIFICATES", dir)
	hash := sha256.Sum256(p.Encode())
	want, err := Check(p)
	if err != nil {
		t.Fatal(err)
	}
	file := certificateFile(dir, hash)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal("the process that proved the plan left no certificate:", err)
	}
	if r, err := readCertificate(dir, hash); err != nil || *r != *want {
		t.Fatalf("%+v, %v; the verifier says %+v", r, err, want)
	}

	// What another process finds is not proven again: a report that no verifier makes shows where it comes from.
	forgotten := func() {
		verified.Lock()
		verified.by = nil
		verified.Unlock()
	}
	other := *want
	other.Shapes = 12345
	if err := writeCertificate(dir, hash, &other); err != nil {
		t.Fatal(err)
	}
	forgotten()
	if r, err := Check(p); err != nil || r.Shapes != 12345 {
		t.Errorf("the plan was proven again: %+v, %v", r, err)
	}

	// A plan is proven again if its certificate cannot be relied on.
	q, err := programs.Build("allreduce_ring", programs.Options{Ranks: 4, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	forged := filepath.Join(t.TempDir(), "forged")
	if err := os.WriteFile(forged, good, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"others may write the file":   func() error { return os.Chmod(file, 0o666) },
		"others may write the folder": func() error { return os.Chmod(dir, 0o777) },
		"a link to another's file": func() error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Symlink(forged, file)
		},
		"nonsense":     func() error { return os.WriteFile(file, []byte("{"), 0o600) },
		"another plan": func() error { return os.WriteFile(certificateFile(dir, sha256.Sum256(q.Encode())), good, 0o600) },
	} {
		_ = os.Remove(file)
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		of := hash
		if name == "another plan" {
			of = sha256.Sum256(q.Encode())
		}
		if r, err := readCertificate(dir, of); err == nil {
			t.Errorf("%s: %+v is relied on", name, r)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	forgotten()
	if _, err := Check(q); err != nil {
		t.Error(err)
	}

	// A wrong plan gets none.
	q.GPUs[0].ThreadBlocks[0].Ops = q.GPUs[0].ThreadBlocks[0].Ops[1:]
	if _, err := Check(q); err == nil {
		t.Error("a wrong plan is accepted")
	}
	if _, err := readCertificate(dir, sha256.Sum256(q.Encode())); err == nil {
		t.Error("a wrong plan has a certificate")
	}
}
