package plan

import "slices"

// hooks checks the hooks of the rank. Chunk counts have been checked.
func (v *validator) hooks() {
	v.hookTable = v.gpu.Hooks()
	at := 0
	for i := range v.gpu.Channels {
		v.enter("channels", i)
		for j := range v.gpu.Channels[i].Hooks {
			v.enter("hooks", j)
			v.hook(&v.gpu.Channels[i].Hooks[j], at)
			v.leave()
			at++
		}
		v.leave()
	}
}

func (v *validator) hook(h *Hook, id int) {
	if !v.need(h.Type == Input || h.Type == Output, "type",
		"a hook guards input (i), which the caller writes, or output (o), which it reads, not %q", h.Type) {
		return
	}
	count := v.p.ChunkCount(v.gpu.ID, h.Type)
	v.need(h.Size > 0 && h.Index >= 0 && h.Size <= count && h.Index <= count-h.Size, "index",
		"chunks %d to %d of a buffer %q of %d chunks", h.Index, h.Index+h.Size-1, h.Type, count)
	v.need(h.Takes() || len(h.After) == 0, "after", "only a hook of input comes after others")
	for k, from := range h.After {
		if from < 0 || from >= len(v.hookTable) || v.hookTable[from].Takes() {
			v.enter("after", k)
			v.bad(ErrInvalid, "", "hook %d comes after hook %d, which is not one of the rank's %d hooks that guards output", id,
				from, len(v.hookTable))
			return
		}
		v.need(!slices.Contains(h.After[:k], from), "after", "hook %d comes twice", from)
	}
}

// hookUse checks entry i of an op on hooks.
func (v *validator) hookUse(op *Op, k *OpKind, i, id int) {
	h := &v.hookTable[id]
	v.enter("channel_ids", i)
	defer v.leave()
	v.need(v.pos.Inner < 0, "", "%s in a pipeline; a hook is raised once in a launch", op.Name)
	v.need(h.Takes() == k.Does.Has(Takes), "", "%s on hook %d, which guards %q: wait_hook is for input, signal_hook for "+
		"output", op.Name, id, h.Type)
}
