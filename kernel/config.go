package kernel

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"strings"
)

//go:embed required.config
var required string

// CheckConfig compares a kernel's configuration (the /boot/config-* file of its
// package) with what a node requires and names every option that is missing.
func CheckConfig(config io.Reader) error {
	have, err := options(config)
	if err != nil {
		return err
	}
	want, err := options(strings.NewReader(required))
	if err != nil {
		return err
	}
	var missing []string
	for _, line := range strings.Split(required, "\n") {
		name, _, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if h := have[name]; h != "y" && !(h == "m" && want[name] == "m") {
			missing = append(missing, line)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the kernel lacks what a node needs: %s; choose another kernel package, or build one with these options", strings.Join(missing, ", "))
	}
	return nil
}

// options reads "CONFIG_X=value" lines; comments and the rest are passed over.
func options(r io.Reader) (map[string]string, error) {
	m := map[string]string{}
	s := bufio.NewScanner(r)
	for s.Scan() {
		if name, value, ok := strings.Cut(s.Text(), "="); ok && strings.HasPrefix(name, "CONFIG_") {
			m[name] = value
		}
	}
	return m, s.Err()
}
