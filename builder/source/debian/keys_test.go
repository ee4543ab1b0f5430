package debian

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
)

func TestKeys(t *testing.T) {
	keys, err := ArchiveKeys()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("keys/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range keys {
		f := fmt.Sprintf("%X", k.PrimaryKey.Fingerprint)
		got = append(got, f)
		if !bytes.Contains(readme, []byte(f)) {
			t.Errorf("keys/README.md does not name %s", f)
		}
		if k.PrivateKey != nil {
			t.Errorf("%s holds a private key", f)
		}
	}
	slices.Sort(got)
	want := []string{"04B54C3CDCA79751B16BC6B5225629DF75B188BD", "41587F7DB8C774BCCF131416762F67A0B2C39DE4", "5E04A1E3223A19A20706E20F9904613D4CCE68C6"}
	if !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}
