//! Where a guest's output leaves it: I/O ports of an x86-64 guest, memory that others share with the host.

#[cfg(not(target_arch = "x86_64"))]
pub use memory::Outlet;
#[cfg(target_arch = "x86_64")]
pub use port::Outlet;

/// The guest's I/O ports.
#[cfg(target_arch = "x86_64")]
mod port {
    use std::arch::asm;
    use std::io;

    /// QEMU's isa-debugcon: bytes written there are in a file of the host.
    const DEBUGCON: u16 = 0xe9;
    /// QEMU's isa-debug-exit: a write of `v` ends QEMU with the status `2 v + 1`.
    const EXIT: u16 = 0x501;

    /// Both ports, after the right to use them was granted. The right is inherited, and costs the kernel
    /// about 100 instructions per context switch.
    #[derive(Debug)]
    pub struct Outlet(());

    impl Drop for Outlet {
        /// Gives up the right.
        fn drop(&mut self) {
            // SAFETY: lowers this thread's own privilege and takes no memory.
            unsafe { libc::syscall(libc::SYS_iopl, 0) };
        }
    }

    impl Outlet {
        /// Lets this thread use the ports, until they are dropped.
        pub fn open() -> io::Result<Self> {
            // SAFETY: raises this thread's own privilege and takes no memory.
            if unsafe { libc::syscall(libc::SYS_iopl, 3) } == 0 {
                Ok(Self(()))
            } else {
                Err(io::Error::last_os_error())
            }
        }

        /// Writes bytes to the host.
        pub fn write(&mut self, bytes: &[u8]) {
            // SAFETY: `open` got the privilege; the instruction reads `bytes` alone, and the
            // direction flag is clear by the calling convention.
            unsafe {
                asm!(
                    "rep outsb",
                    inout("rsi") bytes.as_ptr() => _,
                    inout("rcx") bytes.len() => _,
                    in("dx") DEBUGCON,
                    options(readonly, nostack, preserves_flags),
                );
            }
        }

        /// Ends the machine.
        pub fn end(&self) {
            // SAFETY: `open` got the privilege; the instruction touches no memory.
            unsafe {
                asm!(
                    "out dx, al",
                    in("dx") EXIT,
                    in("al") 0_u8,
                    options(nomem, nostack, preserves_flags),
                );
            }
        }
    }
}

/// Memory of a PCI device, QEMU's `ivshmem-plain`, which is a file of the host. Its first eight bytes are
/// the number of those that follow.
#[cfg(not(target_arch = "x86_64"))]
mod memory {
    use std::fs::{self, File};
    use std::io;
    use std::path::{Path, PathBuf};
    use std::ptr::NonNull;

    use rustix::mm::{MapFlags, ProtFlags};

    const SYSFS: &str = "/sys";
    const DEVICES: &str = "/sys/bus/pci/devices";
    /// Red Hat's number, and the device's.
    const VENDOR: &str = "0x1af4";
    const DEVICE: &str = "0x1110";
    /// Where the device keeps the memory: as ordinary memory where the kernel offers that, because an arm64
    /// processor requires alignment of a device's; riscv64 has only the other.
    const MEMORY: [&str; 2] = ["resource2_wc", "resource2"];
    const NUMBER_BYTES: usize = size_of::<u64>();

    /// The memory, mapped until it is dropped.
    #[derive(Debug)]
    pub struct Outlet {
        memory: NonNull<u8>,
        length: usize,
    }

    impl Drop for Outlet {
        fn drop(&mut self) {
            // SAFETY: `open` made this mapping with this length, and nothing else refers to it.
            let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), self.length) };
        }
    }

    impl Outlet {
        /// Finds the device, and maps its memory.
        pub fn open() -> io::Result<Self> {
            let is_mounted = Path::new(DEVICES).exists();
            if !is_mounted {
                fs::create_dir_all(SYSFS)?;
                super::super::mount("sysfs", SYSFS, "")?;
            }
            let mapped = Self::map();
            if !is_mounted {
                // Who mounts the guest's file systems expects none.
                let _ = rustix::mount::unmount(SYSFS, rustix::mount::UnmountFlags::DETACH);
            }
            mapped
        }

        fn map() -> io::Result<Self> {
            let device = device()?;
            // No driver has enabled its memory.
            fs::write(device.join("enable"), "1")?;
            let open = |name| {
                let mut options = File::options();
                options.read(true).write(true).open(device.join(name))
            };
            let file = open(MEMORY[0]).or_else(|_| open(MEMORY[1]))?;
            let length = file.metadata()?.len();
            let length = usize::try_from(length).ok().filter(|it| *it > NUMBER_BYTES);
            let length = length.ok_or(io::ErrorKind::InvalidData)?;
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, at an address that the kernel chooses.
            let memory = unsafe {
                rustix::mm::mmap(
                    std::ptr::null_mut(),
                    length,
                    rights,
                    MapFlags::SHARED,
                    &file,
                    0,
                )
            }?;
            let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Self { memory, length })
        }

        /// Writes bytes to the host, as far as there is room: what is missing is missed there.
        pub fn write(&mut self, bytes: &[u8]) {
            let number = self.memory.cast::<u64>();
            // SAFETY: the mapping begins with the number, and mappings are aligned to pages.
            let written = unsafe { number.read_volatile() };
            let begin = usize::try_from(written).unwrap_or(usize::MAX);
            let begin = begin.saturating_add(NUMBER_BYTES).min(self.length);
            let fits = &bytes[..bytes.len().min(self.length - begin)];
            for (at, byte) in fits.iter().enumerate() {
                // SAFETY: `begin + at` is below the mapping's length.
                let place = unsafe { self.memory.add(begin + at) };
                // SAFETY: the place is within the mapping, which is writable, and bytes need no alignment.
                unsafe { place.write_volatile(*byte) };
            }
            // Bytes that find no room count, so that the host knows.
            let written = written.saturating_add(bytes.len() as u64);
            // SAFETY: the number is the mapping's first word, aligned, and nothing refers to it.
            unsafe { number.write_volatile(written) };
        }

        /// There is no way to end the machine from here.
        #[expect(clippy::unused_self, reason = "the ports of others end it")]
        pub fn end(&self) {}
    }

    fn device() -> io::Result<PathBuf> {
        let is_it = |folder: &Path| {
            let says = |name: &str, number: &str| {
                fs::read_to_string(folder.join(name)).is_ok_and(|text| text.trim() == number)
            };
            says("vendor", VENDOR) && says("device", DEVICE)
        };
        let folders = fs::read_dir(DEVICES)?.flatten().map(|entry| entry.path());
        let mut found = folders.filter(|folder| is_it(folder));
        found.next().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
