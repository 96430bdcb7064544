package nvrtc

// Program is one translation unit. Headers are found only by the exact text between the brackets or quotes of #include.
type Program struct {
	Source  string
	Name    string            // shown in diagnostics, and part of the names of internal symbols
	Headers map[string]string // include name to text
	Options []string          // libnvrtc's own, for example "-arch=sm_90", "-std=c++17"
}

// Result is what a compilation made. CUBIN is nil when -arch named a virtual architecture (compute_NN); PTX is always
// there.
type Result struct {
	CUBIN []byte
	PTX   []byte
	Log   string // warnings and ptxas information
}
