package release

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// Key is a private OpenPGP key (RFC 9580), unlocked, in memory only.
type Key struct {
	from   string // for messages
	entity *openpgp.Entity
	public openpgp.EntityList
	now    func() time.Time
}

// ReadKey reads a private key, armoured or not. from says where it is from;
// passphrase unlocks it if it is locked, passphraseFrom says where that belongs.
func ReadKey(from string, body, passphrase []byte, passphraseFrom string, now func() time.Time) (*Key, error) {
	read := openpgp.ReadKeyRing
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("-----BEGIN")) {
		read = openpgp.ReadArmoredKeyRing
	}
	list, err := read(bytes.NewReader(body))
	const export = "`gpg --armor --export-secret-keys KEY` writes one"
	switch {
	case err != nil:
		return nil, fmt.Errorf("signing key %s: not an OpenPGP key: %w; %s", from, err, export)
	case len(list) == 0:
		return nil, fmt.Errorf("signing key %s holds no key; %s", from, export)
	case len(list) > 1:
		return nil, fmt.Errorf("signing key %s holds %d keys, and which one should sign is not clear; %s", from, len(list), export)
	}
	k := &Key{from: from, entity: list[0], now: now}
	if !k.private() {
		return nil, fmt.Errorf("signing key %s is a public key (%s); %s", from, k.Fingerprint(), export)
	}
	if k.locked() {
		if len(passphrase) == 0 {
			return nil, fmt.Errorf("signing key %s (%s) is locked; give its passphrase in %s", from, k.Fingerprint(), passphraseFrom)
		}
		if err := k.entity.DecryptPrivateKeys(passphrase); err != nil {
			return nil, fmt.Errorf("signing key %s (%s): the passphrase in %s does not unlock it: %w", from, k.Fingerprint(), passphraseFrom, err)
		}
	}
	public, err := k.Public()
	if err != nil {
		return nil, fmt.Errorf("signing key %s: %w", from, err)
	}
	if k.public, err = openpgp.ReadKeyRing(bytes.NewReader(public)); err != nil {
		return nil, fmt.Errorf("public half of signing key %s: %w", from, err)
	}
	if _, err := k.Sign(nil); err != nil { // now, not after the build
		return nil, err
	}
	return k, nil
}

// privates are the private parts that are there: gpg leaves out the primary key's
// where only a subkey is exported.
func (k *Key) privates() (out []*packet.PrivateKey) {
	all := []*packet.PrivateKey{k.entity.PrivateKey}
	for _, s := range k.entity.Subkeys {
		all = append(all, s.PrivateKey)
	}
	for _, p := range all {
		if p != nil && !p.Dummy() {
			out = append(out, p)
		}
	}
	return out
}

func (k *Key) private() bool { return len(k.privates()) > 0 }

func (k *Key) locked() bool {
	for _, p := range k.privates() {
		if p.Encrypted {
			return true
		}
	}
	return false
}

// Fingerprint is the primary key's, as gpg shows it.
func (k *Key) Fingerprint() string { return fmt.Sprintf("%X", k.entity.PrimaryKey.Fingerprint) }

// Public is the public half, as gpgv reads it.
func (k *Key) Public() ([]byte, error) {
	var b bytes.Buffer
	err := k.entity.Serialize(&b)
	return b.Bytes(), err
}

// Sign makes an armoured detached signature and checks it with the public half.
func (k *Key) Sign(body []byte) ([]byte, error) {
	c := &packet.Config{Time: k.now}
	var sig bytes.Buffer
	if err := openpgp.ArmoredDetachSign(&sig, k.entity, bytes.NewReader(body), c); err != nil {
		return nil, fmt.Errorf("signing key %s (%s) cannot sign: %w; is it expired, revoked, or for encryption only?", k.from, k.Fingerprint(), err)
	}
	sig.WriteByte('\n')
	if _, err := openpgp.CheckArmoredDetachedSignature(k.public, bytes.NewReader(body), bytes.NewReader(sig.Bytes()), c); err != nil {
		return nil, errors.Join(fmt.Errorf("the signature of key %s (%s) does not verify with its public half", k.from, k.Fingerprint()), err)
	}
	return sig.Bytes(), nil
}
