package verify

import (
	"crypto/sha256"
	"embed"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/symmetry"
)

//go:embed *.go
var sources embed.FS

// Hash identifies the verifier: it differs wherever a source of this package, of plan or of symmetry does. What one
// verifier has proven says nothing about another.
func Hash() [sha256.Size]byte {
	h := sha256.New()
	for _, files := range []embed.FS{plan.Sources, symmetry.Sources, sources} {
		entries, err := files.ReadDir(".")
		if err != nil {
			panic(err) // the files are part of the binary
		}
		for _, e := range entries { // sorted by name
			data, err := files.ReadFile(e.Name())
			if err != nil {
				panic(err)
			}
			of := sha256.Sum256(data)
			h.Write([]byte(e.Name()))
			h.Write(of[:])
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
