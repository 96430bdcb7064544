//go:build !cgo || !linux

package verbs

import "fmt"

var errNoCgo = fmt.Errorf("%w: this program was built without cgo (CGO_ENABLED=0) or not for Linux; build it with "+
	"CGO_ENABLED=1 and a C compiler to use RDMA", ErrUnavailable)

func open() error { return errNoCgo }

// Devices fails: this build has no cgo.
func Devices() ([]string, error) { return nil, errNoCgo }

// Open fails: this build has no cgo.
func Open(string) (Context, int, error) { return 0, 0, errNoCgo }

// Close fails: this build has no cgo.
func (Context) Close() error { return errNoCgo }

// Query fails: this build has no cgo.
func (Context) Query(int) (Attributes, error) { return Attributes{}, errNoCgo }

// GID fails: this build has no cgo.
func (Context) GID(int, int) (GID, error) { return GID{}, errNoCgo }

// GIDs fails: this build has no cgo.
func (Context) GIDs() ([]GIDEntry, error) { return nil, errNoCgo }

// Event fails: this build has no cgo.
func (Context) Event() (int, uint64, error) { return 0, 0, errNoCgo }

// PD fails: this build has no cgo.
func (Context) PD() (PD, error) { return 0, errNoCgo }

// Close fails: this build has no cgo.
func (PD) Close() error { return errNoCgo }

// Register fails: this build has no cgo.
func (PD) Register(uintptr, int64, int) (MR, error) { return MR{}, errNoCgo }

// RegisterDMABuf fails: this build has no cgo.
func (PD) RegisterDMABuf(int, int64, int64, uintptr, int) (MR, error) { return MR{}, errNoCgo }

// Close fails: this build has no cgo.
func (MR) Close() error { return errNoCgo }

// Channel fails: this build has no cgo.
func (Context) Channel() (Channel, int, error) { return 0, 0, errNoCgo }

// Ack fails: this build has no cgo.
func (Channel) Ack() error { return errNoCgo }

// Close fails: this build has no cgo.
func (Channel) Close() error { return errNoCgo }

// CQ fails: this build has no cgo.
func (Context) CQ(int, Channel) (CQ, error) { return 0, errNoCgo }

// Close fails: this build has no cgo.
func (CQ) Close() error { return errNoCgo }

// Notify fails: this build has no cgo.
func (CQ) Notify() error { return errNoCgo }

// Poll fails: this build has no cgo.
func (CQ) Poll([]Completion) (int, error) { return 0, errNoCgo }

// QP fails: this build has no cgo.
func (PD) QP(CQ, int, int, int) (QP, uint32, int, error) { return 0, 0, 0, errNoCgo }

// Close fails: this build has no cgo.
func (QP) Close() error { return errNoCgo }

// Reset fails: this build has no cgo.
func (QP) Reset() error { return errNoCgo }

// Fail fails: this build has no cgo.
func (QP) Fail() error { return errNoCgo }

// Init fails: this build has no cgo.
func (QP) Init(int) error { return errNoCgo }

// Ready fails: this build has no cgo.
func (QP) Ready(*Path) error { return errNoCgo }

// Send fails: this build has no cgo.
func (QP) Send(*Work) error { return errNoCgo }

// Receive fails: this build has no cgo.
func (QP) Receive(int, uint64) error { return errNoCgo }

// StatusText fails: this build has no cgo.
func StatusText(int32) string { return "" }

// EventText fails: this build has no cgo.
func EventText(int) string { return "" }
