package core

import (
	"strings"
	"testing"
)

// hasty puts without an entry handshake. The front end says from which line.
const hasty = `{"name":"hasty","collective":"sendrecv","ranks":2,"commands":[
 {"op":"memory_channel","dst":1,"src":0},{"op":"memory_channel","dst":0,"src":1},
 {"op":"put","file":"my_model.py","line":7,"channel_type":"memory","channel":0,
  "to":{"rank":1,"buffer":"o","index":0,"size":1},"from":{"rank":0,"buffer":"i","index":0,"size":1},"tb":0},
 {"op":"signal","file":"my_model.py","line":8,"channel_type":"memory","channel":0,"tb":0},
 {"op":"wait","file":"my_model.py","line":9,"channel_type":"memory","channel":1,"tb":0}]}`

// TestCounterexampleOfAnotherLanguage: the verifier names the line in the front end's source.
func TestCounterexampleOfAnotherLanguage(t *testing.T) {
	file, err := PlanCompile([]byte(hasty))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PlanCheck(file); err == nil || !strings.Contains(err.Error(), "(put), at my_model.py:7, writes") {
		t.Errorf("%v", err)
	}
}
