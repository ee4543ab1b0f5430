package data

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDrivers(t *testing.T) {
	m := newMachine(t)
	for f, s := range map[string]string{
		"bus/virtio/devices/virtio0/modalias":   "virtio:d00000001v00001AF4", // network
		"bus/virtio/devices/virtio1/modalias":   "virtio:d00000002v00001AF4",
		"bus/virtio/devices/virtio2/modalias":   "virtio:d00000002v00001AF4",
		"bus/pci/devices/0000:00:1f.2/modalias": "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01",
		"bus/pci/devices/0000:00:03.0/modalias": "pci:v000015ADd000007C0sv000015ADsd000007C0bc01sc07i00",
		"bus/pci/devices/0000:00:02.0/modalias": "pci:v00001AF4d00001000sv00001AF4sd00000001bc02sc00i00",
		"bus/scsi/devices/0:0:0:0/modalias":     "scsi:t-0x00",
		"bus/scsi/devices/0:0:0:0/driver/x":     "bound already",
	} {
		m.sysfile(f, s)
	}
	want := []string{"virtio:d00000002v00001AF4", "ahci", "pci:v000015ADd000007C0sv000015ADsd000007C0bc01sc07i00"}
	if got := drivers(m.Sys); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSeed(t *testing.T) {
	dir := t.TempDir()
	seed, random := filepath.Join(dir, "seed"), filepath.Join(dir, "random")
	if err := StirSeed(seed, random); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(random); err == nil {
		t.Error("something was mixed in though there was no seed")
	}
	first, err := os.ReadFile(seed)
	if err != nil || len(first) != seedBytes {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	if err := StirSeed(seed, random); err != nil {
		t.Fatal(err)
	}
	mixed, _ := os.ReadFile(random)
	second, _ := os.ReadFile(seed)
	if string(mixed) != string(first) || string(second) == string(first) {
		t.Error("the old seed is to be mixed in and replaced")
	}
	if st, err := os.Stat(seed); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

func TestUnitSerial(t *testing.T) {
	m := newMachine(t)
	for page, want := range map[string]string{
		"\x00\x80\x00\x08 LATE-4Kxx":   "LATE-4K", // what lies behind the length does not count
		"\x00\x80\x00\x06LATE\x00\x00": "LATE",
		"\x00\x83\x00\x04LATE":         "",
		"\x00\x80\x00":                 "",
	} {
		m.sysfile("block/sda/device/vpd_pg80", page)
		if got := unitSerial(filepath.Join(m.Sys, "block/sda")); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}
