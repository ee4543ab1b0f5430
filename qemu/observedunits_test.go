package qemu

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	disks "garboard.local/builder/image"
	"garboard.local/builder/rootfs"
	"garboard.local/pod"
	"garboard.local/pod/systemd"
)

// collectorUnit prints the report to the console and powers off.
const collectorUnit = `[Unit]
Description=Prints what the pods saw
[Service]
Type=exec
ExecStart=/observer collect -of systemd -from /var/lib/observed
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
`

// The root directory of an initramfs is everybody's to write to; a machine's is not.
const (
	rootUnit = `[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/usr/bin/systemd-tmpfiles --create /etc/root.conf
`
	rootConf = "z / 0755 root root\n"
)

// withUnits lays the units of the pods over the machine's initramfs, as convert
// writes them, enabled as systemctl enable would; those of controlPod are spoilt.
func withUnits(t *testing.T, m Machine, plans []*pod.Plan, images string) Machine {
	t.Helper()
	dir := t.TempDir()
	var files []pod.File
	for _, p := range plans {
		u, err := systemd.Units(p, systemd.Options{})
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, u...)
	}
	if _, err := systemd.Write(dir, plans, files, false); err != nil {
		t.Fatal(err)
	}
	spoil(t, filepath.Join(dir, systemd.UnitDir, "pod-default-"+controlPod+"-main.service"))
	tree := rootfs.New()
	lay := func(dir, at string) error {
		return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fi, err := d.Info()
			if err != nil {
				return err
			}
			to := at + strings.TrimPrefix(p, dir)
			switch mode := uint32(fi.Mode().Perm()); {
			case d.IsDir() && mode == 0o700: // closed, as the machine has it
				return tree.Add(rootfs.Entry{Path: to, Kind: rootfs.Dir, Mode: mode, Origin: "convert", Reason: "test"})
			case !fi.Mode().IsRegular(): // other directories are made as needed; links are for who converts
				return nil
			default:
				b, err := os.ReadFile(p)
				return errors.Join(err, tree.Add(rootfs.FromBytes(to, mode, b, "convert", "test")))
			}
		})
	}
	err := lay(dir, "")
	extra := map[string]string{"/etc/root.conf": rootConf, systemd.UnitDir + "/root.service": rootUnit, systemd.UnitDir + "/collector.service": collectorUnit}
	if images != "" {
		module, rerr := os.ReadFile(filepath.Join(filepath.Dir(m.Initrd), "overlay.ko"))
		if rerr != nil {
			t.Fatalf("%v: %s", rerr, buildFirst)
		}
		extra["/overlay.ko"], extra[systemd.UnitDir+"/overlay.service"] = string(module), overlayUnit
		err = errors.Join(err, lay(images, images))
	}
	enable := func(unit, by string) error {
		return tree.Add(rootfs.Entry{Path: systemd.UnitDir + "/" + by + ".wants/" + unit, Kind: rootfs.Symlink, Mode: 0o777, Link: "../" + unit, Origin: "test", Reason: "enabled"})
	}
	for path, content := range extra {
		err = errors.Join(err, tree.Add(rootfs.FromBytes(path, 0o644, []byte(content), "test", "test")))
	}
	err = errors.Join(err, enable("root.service", "sysinit.target"), enable("collector.service", "multi-user.target"))
	if images != "" {
		err = errors.Join(err, enable("overlay.service", "sysinit.target"))
	}
	for _, p := range plans {
		err = errors.Join(err, enable(systemd.Target(p), "multi-user.target"))
	}
	b, rerr := os.ReadFile(m.Initrd)
	if rerr != nil {
		t.Fatalf("%v: %s", rerr, buildFirst)
	}
	out := bytes.NewBuffer(b)
	err = errors.Join(err, disks.WriteCPIO(out, tree, time.Unix(0, 0)))
	m.Initrd = filepath.Join(t.TempDir(), "initramfs.img")
	if err := errors.Join(err, os.WriteFile(m.Initrd, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	m.MemoryMiB = 1024
	return m
}

// spoil has the unit of a container behind a failed init container not require that.
func spoil(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const before, after = "Requires=pod-default-control.service pod-default-control-fails.service\n", "Requires=pod-default-control.service\n"
	if !strings.Contains(string(b), before) {
		t.Fatalf("%s has no %q to spoil:\n%s", file, before, b)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), before, after, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}
