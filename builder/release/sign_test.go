package release

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"garboard.local/builder/report"
	"garboard.local/builder/source/debian"
)

// toolsEnv names the root of the pinned host tools, among which is gpgv; `garboard
// test node` sets it.
const toolsEnv = "GARBOARD_TOOLS"

func entity(t *testing.T, passphrase string, c *packet.Config) *openpgp.Entity {
	t.Helper()
	c.Algorithm = packet.PubKeyAlgoEdDSA
	e, err := openpgp.NewEntity("Release", "", "release@example.org", c)
	if err != nil {
		t.Fatal(err)
	}
	if passphrase != "" {
		if err := e.EncryptPrivateKeys([]byte(passphrase), c); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func private(t *testing.T, es ...*openpgp.Entity) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, e := range es {
		if err := e.SerializePrivateWithoutSigning(&b, nil); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func public(t *testing.T, e *openpgp.Entity) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := e.Serialize(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func armoured(t *testing.T, kind string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := armor.Encode(&b, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadKey(t *testing.T) {
	plain := entity(t, "", &packet.Config{})
	locked := entity(t, "correct horse", &packet.Config{})
	expired := entity(t, "", &packet.Config{KeyLifetimeSecs: 60, Time: func() time.Time { return time.Now().Add(-time.Hour) }})
	for _, c := range []struct {
		name       string
		body       []byte
		passphrase string
		want       string // in the error; "" for none
	}{
		{"plain", private(t, plain), "", ""},
		{"armoured, with space around", append([]byte("\n\n"), append(armoured(t, openpgp.PrivateKeyType, private(t, plain)), "\n\n"...)...), "", ""},
		{"a passphrase that is not needed", private(t, plain), "x", ""},
		{"locked", private(t, locked), "correct horse", ""},
		{"locked, no passphrase", private(t, locked), "", "give its passphrase in $PASS"},
		{"locked, wrong passphrase", private(t, locked), "wrong horse", "the passphrase in $PASS does not unlock it"},
		{"public", public(t, plain), "", "is a public key"},
		{"public, armoured", armoured(t, openpgp.PublicKeyType, public(t, plain)), "", "is a public key"},
		{"two", private(t, plain, locked), "", "holds 2 keys"},
		{"expired", private(t, expired), "", "cannot sign"},
		{"empty", nil, "", "holds no key"},
		{"an SSH key", []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"), "", "not an OpenPGP key"},
		{"text", []byte("hello\n"), "", "signing key k.asc"},
		{"cut off", private(t, plain)[:40], "", "signing key k.asc"},
	} {
		k, err := ReadKey("k.asc", c.body, []byte(c.passphrase), "$PASS", time.Now)
		if c.want == "" {
			if err != nil || k.Fingerprint() == "" {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
			continue
		}
		if c.passphrase != "" && strings.Contains(err.Error(), c.passphrase) {
			t.Errorf("%s: the passphrase is in the error: %v", c.name, err)
		}
	}
}

// verify is the documented verification, by the library and by each of GnuPG's
// programs that there is: on the host, or among the pinned tools.
func verify(t *testing.T, dir string, public []byte) (errs map[string]error) {
	t.Helper()
	errs = map[string]error{}
	ring, err := openpgp.ReadKeyRing(bytes.NewReader(public))
	if err != nil {
		t.Fatal(err)
	}
	_, errs["go-crypto"] = openpgp.CheckArmoredDetachedSignature(ring, bytes.NewReader(read(t, dir, report.SumsName)), bytes.NewReader(read(t, dir, SignatureName)), nil)

	home := t.TempDir()
	put(t, home, "public.gpg", string(public))
	keyring := filepath.Join(home, "public.gpg")
	run := func(cmd *exec.Cmd) error {
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %s", cmd.Path, out)
		return err
	}
	if p, err := exec.LookPath("gpg"); err == nil {
		gpg := []string{"--homedir", home, "--batch", "--no-autostart"}
		if err := run(exec.Command(p, append(gpg, "--import", keyring)...)); err != nil {
			t.Fatal(err)
		}
		errs["gpg"] = run(exec.Command(p, append(gpg, "--verify", SignatureName, report.SumsName)...))
	}
	if tools := os.Getenv(toolsEnv); tools != "" {
		errs["gpgv, pinned"] = run(debian.Command(t.Context(), tools, "gpgv", "--homedir", home, "--keyring", keyring,
			filepath.Join(dir, SignatureName), filepath.Join(dir, report.SumsName)))
	} else if !testing.Short() {
		t.Fatalf("$%s is not set; run `garboard test node`, or go test -short", toolsEnv)
	}
	return errs
}

func TestSignedRelease(t *testing.T) {
	e := entity(t, "correct horse", &packet.Config{})
	body, pub := private(t, e), public(t, e)
	k, err := ReadKey("k.asc", body, []byte("correct horse"), "$PASS", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "dist")
	r := sample(t)
	r.Key = k
	for range 2 { // a signed release is replaced too
		if _, err := r.Write(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	for who, err := range verify(t, dir, pub) {
		if err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
	for _, name := range names(t, dir) {
		if b := read(t, dir, name); bytes.Contains(b, body[8:60]) || bytes.Contains(b, []byte("PRIVATE KEY")) {
			t.Errorf("%s holds the key", name)
		}
	}
	// Controls: other sums under the signature, and another key.
	other := entity(t, "", &packet.Config{})
	for who, err := range verify(t, dir, public(t, other)) {
		if err == nil {
			t.Errorf("%s accepts a key that did not sign", who)
		}
	}
	put(t, dir, report.SumsName, string(read(t, dir, report.SumsName))+sum(nil)+"  evil\n")
	for who, err := range verify(t, dir, pub) {
		if err == nil {
			t.Errorf("%s accepts sums that were changed", who)
		}
	}
}
