//go:build !cgo || !linux

package verbs

import "fmt"

var errNoCgo = fmt.Errorf("%w: this program was built without cgo (CGO_ENABLED=0) or not for Linux; build it with "+
	"CGO_ENABLED=1 and a C compiler to use RDMA", ErrUnavailable)

func open() error { return errNoCgo }

// Every call fails: this build has no cgo.

func Open(string) (Context, int, error)                               { return 0, 0, errNoCgo }
func (Context) Close() error                                          { return errNoCgo }
func (Context) Query(int) (Attributes, error)                         { return Attributes{}, errNoCgo }
func (Context) GID(int, int) (GID, error)                             { return GID{}, errNoCgo }
func (Context) GIDs() ([]GIDEntry, error)                             { return nil, errNoCgo }
func (Context) Event() (int, uint64, error)                           { return 0, 0, errNoCgo }
func (Context) PD() (PD, error)                                       { return 0, errNoCgo }
func (PD) Close() error                                               { return errNoCgo }
func (PD) Register(uintptr, int64, int) (MR, error)                   { return MR{}, errNoCgo }
func (PD) RegisterDMABuf(int, int64, int64, uintptr, int) (MR, error) { return MR{}, errNoCgo }
func (MR) Close() error                                               { return errNoCgo }
func (Context) Channel() (Channel, int, error)                        { return 0, 0, errNoCgo }
func (Channel) Ack() error                                            { return errNoCgo }
func (Channel) Close() error                                          { return errNoCgo }
func (Context) CQ(int, Channel) (CQ, error)                           { return 0, errNoCgo }
func (CQ) Close() error                                               { return errNoCgo }
func (CQ) Notify() error                                              { return errNoCgo }
func (CQ) Poll([]Completion) (int, error)                             { return 0, errNoCgo }
func (PD) QP(CQ, int, int, int) (QP, uint32, int, error)              { return 0, 0, 0, errNoCgo }
func (QP) Close() error                                               { return errNoCgo }
func (QP) Reset() error                                               { return errNoCgo }
func (QP) Fail() error                                                { return errNoCgo }
func (QP) Init(int) error                                             { return errNoCgo }
func (QP) Ready(*Path) error                                          { return errNoCgo }
func (QP) Send(*Work) error                                           { return errNoCgo }
func (QP) Receive(int, uint64) error                                  { return errNoCgo }
func StatusText(int32) string                                         { return "" }
func EventText(int) string                                            { return "" }
