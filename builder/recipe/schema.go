package recipe

import (
	"encoding/json"

	"github.com/invopop/jsonschema"
)

// Schema is the JSON schema of recipes, for editors. It is generated from the
// Go types; docs/recipe.schema.json is a committed copy that a test compares.
func Schema() ([]byte, error) {
	r := &jsonschema.Reflector{FieldNameTag: "yaml", ExpandedStruct: true}
	s := r.Reflect(&Recipe{})
	s.ID = ""
	s.Title = "Garboard recipe"
	s.Required = nil // an extending recipe may leave everything to the one it extends
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}
