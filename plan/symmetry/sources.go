package symmetry

import "embed"

// Sources are the sources of the package, as they were compiled. A proof holds for the sources that it was made with.
//
//go:embed *.go
var Sources embed.FS
