package core

import "github.com/goccl/goccl/primitive"

// Functions of goccl_primitive.h that are methods of package primitive under other names. tools/gen finds those with
// the same names.
var (
	ContextError               = (*primitive.Context).Err
	ConnectionCreate           = (*primitive.Context).Connect
	ProxyServiceBuildSemaphore = (*primitive.ProxyService).BuildAndAddSemaphore
)
