package device

import "bytes"

// fillPiece is how much Fill writes at a time: a buffer as large as its target would be new memory in each call.
const fillPiece = 1 << 18

// Fill writes n bytes of value, as CopyIn does.
func Fill(d Device, dst Ptr, value byte, n int64) error {
	piece := bytes.Repeat([]byte{value}, int(min(n, fillPiece)))
	for at := int64(0); at < n; at += fillPiece {
		if err := d.CopyIn(dst.Add(at), piece[:min(n-at, fillPiece)]); err != nil {
			return err
		}
	}
	return nil
}
