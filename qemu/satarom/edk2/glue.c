// What EDK II's build system generates, and its libraries that are written in
// assembler or would bring far more than is called, for a driver whose entry point
// is ENTRY_POINT.
#include <Uefi.h>
#include <Library/BaseLib.h>
#include <Library/DevicePathLib.h>
#include <Library/TimerLib.h>

EFI_HANDLE            gImageHandle;
EFI_SYSTEM_TABLE      *gST;
EFI_BOOT_SERVICES     *gBS;
EFI_RUNTIME_SERVICES  *gRT;

EFI_STATUS EFIAPI
ENTRY_POINT (EFI_HANDLE Image, EFI_SYSTEM_TABLE *Table);

EFI_STATUS EFIAPI
_ModuleEntryPoint (EFI_HANDLE Image, EFI_SYSTEM_TABLE *Table)
{
  gImageHandle = Image;
  gST          = Table;
  gBS          = Table->BootServices;
  gRT          = Table->RuntimeServices;
  return ENTRY_POINT (Image, Table);
}

VOID EFIAPI
MemoryFence (VOID)
{
  __asm__ volatile ("dmb sy" ::: "memory");
}

UINTN EFIAPI
DevicePathNodeLength (CONST VOID *Node)
{
  CONST EFI_DEVICE_PATH_PROTOCOL  *Path;

  Path = Node;
  return Path->Length[0] | Path->Length[1] << 8;
}

UINT8 EFIAPI
DevicePathType (CONST VOID *Node)
{
  return ((CONST EFI_DEVICE_PATH_PROTOCOL *)Node)->Type;
}

UINT8 EFIAPI
DevicePathSubType (CONST VOID *Node)
{
  return ((CONST EFI_DEVICE_PATH_PROTOCOL *)Node)->SubType;
}

EFI_DEVICE_PATH_PROTOCOL *EFIAPI
NextDevicePathNode (CONST VOID *Node)
{
  return (EFI_DEVICE_PATH_PROTOCOL *)((UINT8 *)Node + DevicePathNodeLength (Node));
}

BOOLEAN EFIAPI
IsDevicePathEnd (CONST VOID *Node)
{
  return DevicePathType (Node) == END_DEVICE_PATH_TYPE && DevicePathSubType (Node) == END_ENTIRE_DEVICE_PATH_SUBTYPE;
}

static UINT64
Ticks (VOID)
{
  UINT64  Count;

  __asm__ volatile ("isb\n\tmrs %0, cntvct_el0" : "=r" (Count) :: "memory");
  return Count;
}

UINTN EFIAPI
MicroSecondDelay (UINTN MicroSeconds)
{
  UINT64  Frequency;
  UINT64  Start;

  Start = Ticks ();
  __asm__ volatile ("mrs %0, cntfrq_el0" : "=r" (Frequency));
  while (Ticks () - Start < MicroSeconds * Frequency / 1000000) {
  }

  return MicroSeconds;
}
