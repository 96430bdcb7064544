package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
)

// ops returns the table of the ops of plans that only synchronize, or of those that move data.
func ops(which string) (string, error) {
	var b strings.Builder
	switch which {
	case "synchronization":
		b.WriteString("| `name` | Fields | Meaning |\n|---|---|---|\n")
		for _, k := range plan.OpKinds() {
			if k.Does&(plan.Moves|plan.Loops) == 0 {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, fields(&k), k.Doc)
			}
		}
	case "data":
		b.WriteString("| `name` | `src_buff` | `dst_buff` | Channel | Meaning |\n|---|---|---|---|---|\n")
		for _, k := range plan.OpKinds() {
			if k.Does&(plan.Moves|plan.Loops) != 0 {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, operands(k.Src), operands(k.Dst), channels(&k, ", "),
					k.Doc)
			}
		}
	default:
		return "", fmt.Errorf("no table of ops %q", which)
	}
	return b.String(), nil
}

// fields lists the keys of an op that synchronizes.
func fields(k *plan.OpKind) string {
	switch {
	case k.Does.Has(plan.Joins):
		return "`barrier_id`, `num_threadblocks`"
	case k.Semaphores:
		return "`semaphore_ids`"
	case len(k.Channels) > 0:
		return "`channel_ids`, `channel_type` " + channels(k, " or ")
	}
	return ""
}

func channels(k *plan.OpKind, separator string) string {
	names := make([]string, len(k.Channels))
	for i, c := range k.Channels {
		names[i] = string(c)
	}
	return strings.Join(names, separator)
}

func operands(s plan.Operands) string {
	var names []string
	for _, k := range s.Kinds() {
		names = append(names, k.String())
	}
	text := strings.Join(names, ", ")
	if s.Rest != 0 {
		text += "…"
	}
	return text
}

// fillSchema replaces, in the JSON Schema of a plan, the names of the ops and what each of them requires.
func fillSchema(schema string) (string, error) {
	var names []plan.OpName
	for _, k := range plan.OpKinds() {
		names = append(names, k.Name)
	}
	for _, part := range []struct {
		begin, end string
		indent     int
		value      any
	}{
		{"    \"name\": {\n     \"enum\": ", "\n    },\n    \"src_buff\"", 5, names},
		{"   \"allOf\": ", "\n  },\n  \"chunk\"", 3, requirements()},
	} {
		before, rest, ok := strings.Cut(schema, part.begin)
		_, after, also := strings.Cut(rest, part.end)
		if !ok || !also {
			return "", fmt.Errorf("plan/schema.json: no text between %q and %q", part.begin, part.end)
		}
		text, err := json.MarshalIndent(part.value, strings.Repeat(" ", part.indent), " ")
		if err != nil {
			return "", err
		}
		schema = before + part.begin + string(text) + part.end + after
	}
	return schema, nil
}

// The parts of the schema that fillSchema writes, with their keys in this order.
type (
	rule struct {
		If   condition   `json:"if"`
		Then requirement `json:"then"`
	}
	condition struct {
		Properties struct {
			Name enum `json:"name"`
		} `json:"properties"`
	}
	enum struct {
		Enum []string `json:"enum"`
	}
	requirement struct {
		Required   []string        `json:"required"`
		Properties map[string]enum `json:"properties,omitempty"`
	}
)

// requirements returns what ops require besides their name, the ops with the same requirements together.
func requirements() (rules []*rule) {
	for _, k := range plan.OpKinds() {
		then := requirement{Required: required(&k)}
		if len(then.Required) == 0 || k.OlderKeys {
			continue
		}
		if len(k.Channels) > 0 {
			then.Properties = map[string]enum{"channel_type": {strings.Split(channels(&k, " "), " ")}}
		}
		at := slices.IndexFunc(rules, func(r *rule) bool {
			return slices.Equal(r.Then.Required, then.Required) && slices.Equal(r.Then.Properties["channel_type"].Enum,
				then.Properties["channel_type"].Enum)
		})
		if at < 0 {
			at = len(rules)
			rules = append(rules, &rule{Then: then})
		}
		names := &rules[at].If.Properties.Name.Enum
		*names = append(*names, string(k.Name))
	}
	return rules
}

func required(k *plan.OpKind) (keys []string) {
	switch {
	case k.Does.Has(plan.Joins):
		return []string{"num_threadblocks"} // barrier_id is 0 when absent
	case k.Does.Has(plan.Loops):
		return []string{"iter_context", "ops"}
	case k.Semaphores:
		return []string{"semaphore_ids"}
	}
	if k.Does.Has(plan.Moves) {
		keys = append(keys, "src_buff", "dst_buff")
	}
	if k.Does&(plan.Takes|plan.Adds|plan.Flushes) != 0 {
		keys = append(keys, "channel_ids")
	}
	if len(k.Channels) > 0 {
		keys = append(keys, "channel_type")
	}
	return keys
}
