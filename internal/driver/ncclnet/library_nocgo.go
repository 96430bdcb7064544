//go:build !cgo || !linux

package ncclnet

// Library cannot be opened in this build.
type Library struct{}

// Dial is never made in this build.
type Dial struct{}

// Open fails.
func Open(string) (*Library, error) { return nil, ErrUnavailable }

// All methods are unreachable, because there is no Library.
func (*Library) Name() string                                          { return "" }
func (*Library) Version() int                                          { return 0 }
func (*Library) Devices() (int, error)                                 { return 0, ErrUnavailable }
func (*Library) Properties(int) (Properties, error)                    { return Properties{}, ErrUnavailable }
func (*Library) Listen(int) ([]byte, Listener, error)                  { return nil, 0, ErrUnavailable }
func (*Library) NewDial(int, []byte) *Dial                             { return nil }
func (*Dial) Connect() (Comm, error)                                   { return 0, ErrUnavailable }
func (*Dial) Close()                                                   {}
func (*Library) Accept(Listener) (Comm, error)                         { return 0, ErrUnavailable }
func (*Library) Register(Comm, uintptr, int64, int) (Handle, error)    { return 0, ErrUnavailable }
func (*Library) Deregister(Comm, Handle) error                         { return ErrUnavailable }
func (*Library) Send(Comm, uintptr, int64, Handle) (Request, error)    { return 0, ErrUnavailable }
func (*Library) Receive(Comm, uintptr, int64, Handle) (Request, error) { return 0, ErrUnavailable }
func (*Library) Flush(Comm, uintptr, int64, Handle) (Request, error)   { return 0, ErrUnavailable }
func (*Library) Test(Request) (bool, int, error)                       { return false, 0, ErrUnavailable }
func (*Library) CloseSend(Comm) error                                  { return ErrUnavailable }
func (*Library) CloseReceive(Comm) error                               { return ErrUnavailable }
func (*Library) CloseListener(Listener) error                          { return ErrUnavailable }
