package kernel

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Config is a kernel's configuration: values by option, without CONFIG_. An
// option that is not set is not in it.
type Config map[string]string

// maxConfig bounds a configuration; Debian's largest has 350 kB.
const maxConfig = 8 << 20

// ReadConfig reads a configuration as /boot/config-* and .config are, or
// compressed as /proc/config.gz is, or inside a kernel that has CONFIG_IKCONFIG.
func ReadConfig(b []byte) (Config, error) {
	if isKernel(b) {
		text, err := embedded(b)
		if err != nil {
			return nil, err
		}
		return ReadConfig(text)
	}
	r, err := decompress(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("kernel configuration: %w", err)
	}
	if len(text) > maxConfig {
		return nil, fmt.Errorf("kernel configuration: it is larger than %d bytes", maxConfig)
	}
	c := Config{}
	s := bufio.NewScanner(bytes.NewReader(text))
	for s.Scan() {
		name, value, ok := strings.Cut(s.Text(), "=")
		if option, is := strings.CutPrefix(name, "CONFIG_"); ok && is {
			c[option] = value
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("kernel configuration: %w", err)
	}
	if len(c) == 0 {
		return nil, errors.New("kernel configuration: there is no CONFIG_ line in it; it is a file such as /boot/config-* or /proc/config.gz, or a kernel with CONFIG_IKCONFIG")
	}
	return c, nil
}
