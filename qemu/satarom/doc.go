// Package satarom makes an option ROM for QEMU's SATA controller (ich9-ahci) with
// UEFI drivers for arm64. Debian's firmware for arm64 virtual machines (AAVMF) has no
// drivers for SATA, so it offers nothing behind such a controller to boot from; but, as
// real machines' firmware does, it starts drivers that a card brings along. With this
// ROM in the card, a CD in a SATA drive boots on an unchanged firmware.
//
// The drivers are EDK II's own, which OVMF has built in: SataControllerDxe and
// AtaAtapiPassThru. They are compiled from the source of Debian's package edk2 with
// clang, which writes PE programs itself, so that neither EDK II's build system nor a
// C compiler of the host is needed. Only tests use it.
package satarom
