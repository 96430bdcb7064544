// Command pack compresses the images of the kernels for a release:
//
//	go run ./tools/kernels/pack build/kernels
//	go build -overlay build/kernels/overlay.json ./cmd/goccl
//
// The repository holds images as the compiler writes them (package kernels says why), and programs built from a clone
// embed those. The overlay makes the go command embed the compressed ones in their place.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage, in the root of the repository: go run ./tools/kernels/pack FOLDER")
		os.Exit(2)
	}
	if err := pack("kernels", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// pack compresses the images below root into the folder dest, and writes the overlay there.
func pack(root, dest string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	if dest, err = filepath.Abs(dest); err != nil {
		return err
	}
	if err := os.MkdirAll(dest, 0o755); err != nil {
		return err
	}
	replace := map[string]string{}
	for _, pattern := range []string{"*.cubin", "*.ptx"} {
		images, err := filepath.Glob(filepath.Join(root, "*", pattern))
		if err != nil {
			return err
		}
		for _, path := range images {
			replace[path] = filepath.Join(dest, filepath.Base(path)+".zst")
			if err := packFile(path, replace[path]); err != nil {
				return err
			}
		}
	}
	if len(replace) == 0 {
		return fmt.Errorf("no images in folders of %s", root)
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dest, "overlay.json"), text, 0o644)
}

func packFile(from, to string) error {
	image, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	packed, err := compressed(image)
	if err != nil {
		return err
	}
	return os.WriteFile(to, packed, 0o644)
}

// compressed returns an image as one block.
func compressed(image []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(8<<20))
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(image, nil), w.Close()
}
