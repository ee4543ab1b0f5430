package debian

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"pault.ag/go/debian/control"
)

// clockSkew is how far in the future a Release may be dated before the clock
// of this machine (or the mirror) is called wrong.
const clockSkew = time.Hour

// indexFile is one line of a Release's SHA256 field.
type indexFile struct {
	sum  string // hexadecimal sha256
	size int64  // bytes
}

// release is what a verified InRelease says.
type release struct {
	date   time.Time
	byHash bool
	files  map[string]indexFile // by path below dists/<suite>/
}

// parseRelease verifies the signature of an InRelease file and its dates at the
// time now, and returns what the signed text says about the suite. Text outside
// the signature is never looked at.
// The format is described in https://wiki.debian.org/DebianRepository/Format.
func parseRelease(inRelease []byte, keys openpgp.EntityList, codename string, now time.Time) (*release, error) {
	block, _ := clearsign.Decode(inRelease)
	if block == nil {
		return nil, errors.New("not a clear-signed file (a captive portal or proxy page?)")
	}
	sig := bytes.Buffer{}
	if block.ArmoredSignature == nil {
		return nil, errors.New("the signature is missing")
	}
	if _, err := sig.ReadFrom(block.ArmoredSignature.Body); err != nil {
		return nil, fmt.Errorf("the signature cannot be read: %w", err)
	}
	config := &packet.Config{Time: func() time.Time { return now }}
	_, err := openpgp.CheckDetachedSignature(keys, bytes.NewReader(block.Bytes), bytes.NewReader(sig.Bytes()), config)
	if errors.Is(err, pgperrors.ErrUnknownIssuer) {
		return nil, fmt.Errorf("signed by unknown key %s, not by one of Debian's archive keys (builder/source/debian/keys): %w",
			strings.Join(issuers(sig.Bytes()), ", "), err)
	}
	if err != nil {
		return nil, fmt.Errorf("bad signature: %w", err)
	}

	r, err := control.NewParagraphReader(bytes.NewReader(block.Plaintext), nil)
	if err != nil {
		return nil, err
	}
	p, err := r.Next()
	if err != nil {
		return nil, fmt.Errorf("no Release paragraph: %w", err)
	}
	if got := p.Values["Codename"]; got != codename {
		return nil, fmt.Errorf("it is the Release of %q, not of %q", got, codename)
	}
	rel := &release{byHash: p.Values["Acquire-By-Hash"] == "yes"}
	if rel.date, err = parseDate(p.Values["Date"]); err != nil {
		return nil, fmt.Errorf("field Date: %w", err)
	}
	if rel.date.After(now.Add(clockSkew)) {
		return nil, fmt.Errorf("dated %s, but it is %s here: set this machine's clock", rel.date, now.UTC().Format(time.RFC1123))
	}
	if v, ok := p.Values["Valid-Until"]; ok {
		until, err := parseDate(v)
		if err != nil {
			return nil, fmt.Errorf("field Valid-Until: %w", err)
		}
		if now.After(until) {
			return nil, fmt.Errorf("expired: valid until %s, and it is %s here: the mirror is out of date (use another with --mirror) or this machine's clock is wrong",
				until, now.UTC().Format(time.RFC1123))
		}
	}
	rel.files, err = parseHashes(p.Values["SHA256"])
	return rel, err
}

func parseDate(s string) (time.Time, error) {
	t, err := http.ParseTime(strings.Replace(s, "UTC", "GMT", 1))
	if err != nil {
		return t, fmt.Errorf("%q is not a date like \"Sat, 21 Nov 2026 09:15:44 UTC\"", s)
	}
	return t.UTC(), nil
}

func parseHashes(field string) (map[string]indexFile, error) {
	files := map[string]indexFile{}
	for line := range strings.Lines(field) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 3 || !isSHA256(f[0]) || path.IsAbs(f[2]) || path.Clean(f[2]) != f[2] || strings.HasPrefix(f[2], "..") {
			return nil, fmt.Errorf("field SHA256: malformed line %q", strings.TrimSpace(line))
		}
		size, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || size < 0 {
			return nil, fmt.Errorf("field SHA256: malformed size in %q", strings.TrimSpace(line))
		}
		files[f[2]] = indexFile{f[0], size}
	}
	if len(files) == 0 {
		return nil, errors.New("field SHA256: missing or empty")
	}
	return files, nil
}

// issuers names the keys that a signature claims to be made by, for an error.
func issuers(sig []byte) []string {
	var ids []string
	r := packet.NewReader(bytes.NewReader(sig))
	for {
		p, err := r.Next()
		if err != nil {
			break
		}
		if s, ok := p.(*packet.Signature); ok && s.IssuerKeyId != nil {
			ids = append(ids, fmt.Sprintf("%016X", *s.IssuerKeyId))
		}
	}
	if ids == nil {
		return []string{"(unnamed)"}
	}
	return ids
}

func isSHA256(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && strings.ToLower(s) == s
}
