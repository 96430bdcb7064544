package records

// The layouts of records.h are in zz_layout.go; TestLayout compares them with the compiler's.
//
//go:generate go run ../../../tools/layouts

// Func, Algo, Proto and Class are the parts of the key: names, and the class of size.
func (s *Sum) Func() uint8  { return uint8(s.Key >> 24) }
func (s *Sum) Algo() uint8  { return uint8(s.Key >> 16) }
func (s *Sum) Proto() uint8 { return uint8(s.Key >> 8) }
func (s *Sum) Class() uint8 { return uint8(s.Key) }
