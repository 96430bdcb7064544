package bootstrap

import (
	"crypto/hmac"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// Every release begins its greeting with the same bytes up to the nonce. Both sides look at the magic and the version
// before they wait for more, so releases with longer or shorter greetings end at once:
//
//  1. A sends its greeting also to a D of another version.
//  2. D, who sees another version, sends its rank and HMAC(secret, "release", nonce of A, rank) in place of the proof.
//  3. A may trust that: a rank of the job has another release.

// errRelease means that the other side has another release of goccl.
var errRelease = fmt.Errorf("%w: another release of goccl", ErrProtocol)

// checkVersion reads the version at the beginning of a greeting.
func checkVersion(b []byte) (version uint16, err error) {
	if string(b[:4]) != protocolMagic {
		return 0, errNotGoccl
	}
	version = binary.LittleEndian.Uint16(b[4:])
	if version != protocolVersion {
		err = releaseError("the peer", version, "this rank")
	}
	return version, err
}

func releaseError(who string, version uint16, other string) error {
	return fmt.Errorf("%w: %s speaks version %d of the protocol, %s version %d; use one goccl release in a job",
		errRelease, who, version, other, protocolVersion)
}

// complain tells an acceptor of another version, whose greeting is coming, that rank has this version.
func complain(c net.Conn, secret []byte, rank int32, begin []byte) {
	nonce := make([]byte, nonceEnd-len(begin))
	if _, err := io.ReadFull(c, nonce); err != nil {
		return
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(rank))
	_, _ = c.Write(append(b, seal(secret, "release", nonce[24-len(begin):], b)...))
	// A connection that is closed while data arrives loses what was sent.
	_, _ = io.Copy(io.Discard, io.LimitReader(c, maxComplaint))
}

const (
	versionEnd = 6  // end of the magic and the version in a greeting
	nonceEnd   = 56 // end of what all releases have in common
	// maxComplaint bounds the bytes read from a side with another version, complaintWait the time for that.
	maxComplaint  = 4 << 10
	complaintWait = time.Second
)

// receiveComplaint waits for the complaint of a dialer with another version, behind the rest of its greeting.
func receiveComplaint(c net.Conn, secret []byte, mine []byte) (rank int32, ok bool) {
	const size = 4 + proofSize
	var got []byte
	for b := make([]byte, 512); len(got) < maxComplaint; {
		n, err := c.Read(b)
		got = append(got, b[:n]...)
		if len(got) >= size {
			at := got[len(got)-size:]
			if hmac.Equal(at[4:], seal(secret, "release", mine[24:nonceEnd], at[:4])) {
				return int32(binary.LittleEndian.Uint32(at)), true
			}
		}
		if err != nil {
			break
		}
	}
	return 0, false
}
