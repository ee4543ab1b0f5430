package boot

// givenDir holds what a boot loader laid into /etc of the initramfs.
const givenDir = "/run/garboard/etc-given"

// layGiven makes a layer of /etc of what came with the initramfs. It lies over the
// image's and below what was written on this node, and does not outlive the boot.
func (n *node) layGiven() error {
	if len(n.given) == 0 {
		return nil
	}
	n.printf("etc: %d files and directories that came with the initramfs are laid over the image's", len(n.given))
	n.layers = []string{givenDir}
	return n.given.Write(givenDir)
}
