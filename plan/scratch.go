package plan

// ScratchLayout places the parts of a rank's scratch buffer. Plain bytes and packets have separate planes, so that
// plain data is never mistaken for a packet. The start of each plane does not depend on the message size, so that the
// two halves stay disjoint for launches of different sizes.
type ScratchLayout struct {
	Size    int64    // total size in bytes
	Plain   [2]int64 // start of the plain plane, for even and odd launches; equal unless the plan doubles its scratch
	Packets [2]int64
}

// packetBytes is the number of packet bytes per byte of payload: half of a packet is flags. packetPayload is the
// largest payload that shares a flag.
const (
	packetBytes   = 2
	packetPayload = 8
)

const scratchAlign = 256

// UsesPackets reports whether an op of the plan accesses packets. UsesPlainScratch reports whether an op accesses plain
// bytes in scratch.
func (p *Plan) UsesPackets() bool      { return p.usesScratch(true) }
func (p *Plan) UsesPlainScratch() bool { return p.usesScratch(false) }

func (p *Plan) usesScratch(packets bool) bool {
	for r := range p.GPUs {
		g := &p.GPUs[r]
		groups := g.SwitchGroups()
		for tb, op := range g.Ops() {
			k := op.Name.Kind()
			if !k.Does.Has(Moves) {
				continue
			}
			for i := range op.Src {
				if k.SourcePackets(op.ChannelType, i) == packets && p.isScratch(g, tb, groups, op, &op.Src[i]) {
					return true
				}
			}
			for i := range op.Dst {
				if k.Dst.At(i).Packets() == packets && p.isScratch(g, tb, groups, op, &op.Dst[i]) {
					return true
				}
			}
		}
	}
	return false
}

func (p *Plan) isScratch(g *GPU, tb *ThreadBlock, groups []SwitchGroup, op *Op, c *Chunk) bool {
	switch c.Kind {
	case RemoteChunk:
		return g.RemoteBuffers[tb.RemoteBufferIDs(op.ChannelType)[c.ID]].Type == Scratch
	case SwitchChunk:
		return groups[tb.ChannelIDs(SwitchChannel)[c.ID]].Buffer == Scratch
	}
	return c.Type == Scratch
}

// Scratch returns the layout of rank's scratch for messages whose chunks are at most chunk bytes. All ranks must use
// the same chunk, the largest that they ever need: to grow scratch, all ranks exchange a new buffer.
func (p *Plan) Scratch(rank int, chunk int64) ScratchLayout {
	n := int64(p.GPUs[rank].ScratchChunks) * chunk
	var plain, packets int64
	if p.UsesPlainScratch() {
		plain = alignUp(n, scratchAlign)
	}
	if p.UsesPackets() {
		packets = alignUp(n*packetBytes, scratchAlign)
	}
	s := ScratchLayout{Size: plain + packets, Packets: [2]int64{plain, plain}}
	if p.DoubleScratch {
		s.Plain[1] = s.Size
		s.Packets[1] = s.Size + plain
		s.Size *= 2
	}
	return s
}

// PlainAt returns the offset of byte x of plain scratch chunk k in launch number launch. PacketAt returns the offset of
// its packet. The packets of a chunk are dense, and x is a multiple of the packet's payload.
func (s *ScratchLayout) PlainAt(l *Layout, launch uint64, k int, x int64) int64 {
	return s.Plain[launch&1] + int64(k)*l.Chunk + x
}

// PacketAt returns the offset of a packet, see PlainAt.
func (s *ScratchLayout) PacketAt(l *Layout, launch uint64, k int, x int64) int64 {
	return s.Packets[launch&1] + packetBytes*(int64(k)*l.Chunk+x)
}

func alignUp(n, a int64) int64 { return (n + a - 1) / a * a }
