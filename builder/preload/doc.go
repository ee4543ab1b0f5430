// Package preload turns container images into a read-only image store of
// containers/storage (overlay driver) that is part of the root image, so that
// the runtime finds them in place: no pull, no copy, no registry.
//
// The store is what storage.conf calls an additional image store:
//
//	overlay/<layer>/diff        the layer's files
//	overlay/<layer>/link        the layer's short name
//	overlay/<layer>/lower       the short names of the layers below it
//	overlay/l/<short>           -> ../<layer>/diff
//	overlay-layers/layers.json  with layers.lock, and <layer>.tar-split.gz,
//	                            from which a layer's tar is reproduced to the bit
//	overlay-images/images.json  with images.lock, and <image>/ with the
//	                            manifest and the configuration
//
// The formats have no specification but go.podman.io/storage and
// go.podman.io/image; the module in verify/ lets those two judge the output.
//
// Whiteouts. An overlay layer expresses a deletion as a 0:0 device or as an
// extended attribute, and a root image's tree holds neither. An image with a
// whiteout, or with two entries for one path in a layer, is therefore
// flattened into one layer: its configuration and manifest are rewritten to
// say so, and its ID and digest are no longer those of its origin. Every other
// image keeps its layers, ID and, where it comes from an OCI layout, digest.
// Hard links become files of their own with the same content. Of extended
// attributes a file's capabilities are kept; others, devices and fifos in a layer
// are errors.
package preload
