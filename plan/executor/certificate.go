package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/goccl/goccl/plan/verify"
)

// certificate says that a verifier has proven a plan. It lies in a folder of the user's, so that not every process
// proves the same plans again.
//
// It carries no signature: any process that can write to the folder can forge one. So only files count that belong to
// this process's user and that nobody else can write, in such a folder. A process that can write those can also change
// the program that reads them. A certificate that comes from elsewhere, such as beside a plan, is not read.
type certificate struct {
	Plan     string        `json:"plan"`     // SHA-256 of the plan in the form that Encode writes
	Verifier string        `json:"verifier"` // verify.Hash
	Report   verify.Report `json:"report"`   // what was examined, and what was found
}

const maxCertificate = 4096

// certificateFile returns the name of the file for a plan. Another version of the verifier has another file.
func certificateFile(dir string, hash [sha256.Size]byte) string {
	verifier := verify.Hash()
	h := sha256.New()
	h.Write(hash[:])
	h.Write(verifier[:])
	return filepath.Join(dir, hex.EncodeToString(h.Sum(nil)[:16])+".json")
}

// readCertificate returns the report of a certificate, or an error that says why there is none to rely on.
func readCertificate(dir string, hash [sha256.Size]byte) (*verify.Report, error) {
	if err := onlyOurs(dir, os.Lstat); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(certificateFile(dir, hash), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := onlyOurs(f.Name(), func(string) (os.FileInfo, error) { return f.Stat() }); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCertificate))
	if err != nil {
		return nil, err
	}
	var c certificate
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	verifier := verify.Hash()
	if c.Plan != hex.EncodeToString(hash[:]) || c.Verifier != hex.EncodeToString(verifier[:]) || c.Report.Steps <= 0 {
		return nil, fmt.Errorf("%s is for another plan or another verifier", f.Name())
	}
	return &c.Report, nil
}

// onlyOurs checks that a file or folder belongs to this user and that nobody else may write it.
func onlyOurs(name string, stat func(string) (os.FileInfo, error)) error {
	info, err := stat(name)
	if err != nil {
		return err
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(sys.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 || !info.IsDir() && !info.Mode().IsRegular() {
		return fmt.Errorf("%s must belong to user %d, who alone may write it (chmod go-w); it is %v", name, os.Geteuid(),
			info.Mode())
	}
	return nil
}

// writeCertificate stores a report. Readers see the whole file or none.
func writeCertificate(dir string, hash [sha256.Size]byte, r *verify.Report) error {
	verifier := verify.Hash()
	data, err := json.Marshal(certificate{hex.EncodeToString(hash[:]), hex.EncodeToString(verifier[:]), *r})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := onlyOurs(dir, os.Lstat); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), certificateFile(dir, hash))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
