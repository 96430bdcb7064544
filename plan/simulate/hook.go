package simulate

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// callers adds blocks for the signals and waits of a rank's caller at hooks. The caller's computation costs the plan
// nothing.
func (m *model) callers(links *plan.Links, rank int) error {
	hooks := m.plan.GPUs[rank].Hooks()
	raised := 0
	for h := range hooks {
		steps := slices.DeleteFunc(m.plan.CallerProgram(rank, h), func(s plan.Step) bool {
			return !s.Does.Has(plan.Takes) && !s.Does.Has(plan.Adds)
		})
		l := loader{model: m, links: links, rank: int32(rank)}
		code, err := l.steps(steps, 1)
		if err != nil {
			return err
		}
		b := block{rank: int32(rank), id: int32(len(m.plan.GPUs[rank].ThreadBlocks) + h), code: code}
		if hooks[h].Takes() {
			raised++
			b.begin = m.machine.Hook * float64(raised)
		}
		m.blocks = append(m.blocks, b)
	}
	return nil
}

// caller reports whether the block is the caller's work at a hook.
func (b *block) caller(p *plan.Plan) bool { return int(b.id) >= len(p.GPUs[b.rank].ThreadBlocks) }
