package plan

import (
	"crypto/sha256"
	"embed"
)

// verifierFiles are the sources of the package, as they were compiled.
//
//go:embed *.go
var verifierFiles embed.FS

// VerifierHash identifies the verifier: it differs wherever a source of this package does. What one verifier has proven
// says nothing about another.
func VerifierHash() [sha256.Size]byte {
	h := sha256.New()
	entries, err := verifierFiles.ReadDir(".")
	if err != nil {
		panic(err) // the files are part of the binary
	}
	for _, e := range entries { // sorted by name
		data, err := verifierFiles.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		of := sha256.Sum256(data)
		h.Write([]byte(e.Name()))
		h.Write(of[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}
