package jit

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"syscall"

	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/internal/setting"
)

// diskCache is a folder of entries: the SHA-256 of the content, then the content. A nil cache is empty. Read and write
// failures are not errors; they cost a compilation.
type diskCache struct{ dir string }

// maxEntry bounds the size of an entry that is read into memory.
const maxEntry = 256 << 20

// openDiskCache creates the folder. It returns nil if the cache is switched off, or if the folder cannot be made or is
// not safe to load code from.
func openDiskCache() *diskCache {
	dir := setting.Lenient().CacheDir
	if dir == "off" {
		return nil
	}
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(base, "goccl", "kernels")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil || !private(dir) {
		return nil
	}
	return &diskCache{dir: dir}
}

// private reports whether dir is a folder of this user that no other user can write to: its images run on the GPU.
func private(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

func (d *diskCache) path(key string) string { return filepath.Join(d.dir, key) }

// load returns the content of an entry, or nil. A damaged entry is removed.
func (d *diskCache) load(key string) []byte {
	if d == nil {
		return nil
	}
	all, err := regular.Read(d.path(key), maxEntry)
	if err != nil {
		return nil
	}
	if len(all) > sha256.Size {
		if sum := sha256.Sum256(all[sha256.Size:]); bytes.Equal(sum[:], all[:sha256.Size]) {
			return all[sha256.Size:]
		}
	}
	_ = os.Remove(d.path(key))
	return nil
}

// store writes an entry. A reader sees all of it or nothing.
func (d *diskCache) store(key string, data []byte) {
	if d != nil && len(data) > 0 {
		sum := sha256.Sum256(data)
		_ = regular.Replace(d.path(key), append(sum[:], data...), 0o600)
	}
}
