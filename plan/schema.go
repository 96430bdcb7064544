package plan

import _ "embed"

// Schema is the JSON Schema of a plan file (draft 2020-12).
//
//go:embed schema.json
var Schema []byte
