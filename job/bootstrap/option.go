package bootstrap

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/goccl/goccl/internal/setting"
)

// Defaults of the options.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultHeartbeat = 250 * time.Millisecond
	defaultRootLife  = 10 * time.Minute
	handshakeTimeout = 5 * time.Second // of an incoming connection, and of an attempt until the greeting arrives
	maxPending       = 256
)

type config struct {
	timeout    time.Duration // each step
	stall      time.Duration // silence after which a connected peer is dead
	partition  time.Duration // unacknowledged data after which a peer is unreachable
	heartbeat  time.Duration
	rootLife   time.Duration // how long an unused root listens
	lateLife   time.Duration // how long a root serves a late error
	iface      string        // interface specification, "" = any
	family     int           // of addresses: 4, 6, or 0 for either
	secret     []byte        // address form only
	log        *slog.Logger
	world      int    // root: the world size; 0 = taken from the first rank
	hostID     string // "" = detected
	commID     string // NCCL_COMM_ID; "" = none
	sparseFrom int    // ranks from which a job has a sparse overlay
	cached     int    // mostCached
}

// sparseStart is sparseFrom, but lower in tests of small jobs.
var sparseStart = sparseFrom

// An Option changes a default of NewUniqueID and the functions that join.
type Option func(*config)

// WithTimeout bounds every step: joining as a whole, and each Send, Recv, AllGather, Barrier and Sub whose context has
// no deadline. The default is GOCCL_TIMEOUT (a Go duration, or seconds), else 30 s.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithStallTimeout sets how long a connected peer may be silent before it counts as dead. The default is the step
// timeout.
func WithStallTimeout(d time.Duration) Option { return func(c *config) { c.stall = d } }

// WithRootLifetime sets how long a root that no rank joins keeps listening. The default is 10 min.
func WithRootLifetime(d time.Duration) Option { return func(c *config) { c.rootLife = d } }

// WithInterface chooses the network interface, in the form of GOCCL_SOCKET_IFNAME: a comma-separated list of name
// prefixes in the order of preference, "=" before the list for exact names, "^" for names to avoid.
func WithInterface(spec string) Option { return func(c *config) { c.iface = cmp.Or(spec, c.iface) } }

// WithSecret sets the secret of the address form, as GOCCL_SECRET does.
func WithSecret(secret []byte) Option {
	return func(c *config) { c.secret = append([]byte(nil), secret...) }
}

// WithLogger sets the logger for refused connections and dead peers. The default is slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithWorldSize sets a root's world size in advance, so that a first rank with a different one is refused.
func WithWorldSize(n int) Option { return func(c *config) { c.world = n } }

func newConfig(opts []Option) (*config, error) {
	env, bad := setting.Read("GOCCL_TIMEOUT", "GOCCL_SOCKET_FAMILY", "GOCCL_BLIP")
	c := &config{
		timeout: env.TimeoutOr(DefaultTimeout), partition: setting.Unreachable(env.Blip), heartbeat: DefaultHeartbeat,
		rootLife: defaultRootLife, lateLife: lateErrorLife,
		log: slog.Default(), secret: []byte(env.Secret), commID: env.CommID,
		iface: env.Interface, family: env.Family, hostID: env.HostID,
		sparseFrom: sparseStart, cached: mostCached,
	}
	for _, o := range opts {
		o(c)
	}
	if c.timeout <= 0 || c.rootLife <= 0 || c.stall < 0 {
		bad = errors.Join(bad, errors.New("timeouts must be positive"))
	}
	c.stall = cmp.Or(c.stall, c.timeout)
	if bad != nil {
		return c, fmt.Errorf("%w: %w", ErrInvalid, bad)
	}
	return c, nil
}
