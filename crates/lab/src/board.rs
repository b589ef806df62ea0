//! The machines that the laboratory emulates: one for each architecture of guests.

use std::path::{Path, PathBuf};

use object::elf;
use punctual_record::laboratory::Architecture;

/// What differs between the architectures of guests.
#[derive(Debug)]
pub struct Board {
    /// Which.
    pub architecture: Architecture,
    /// QEMU's program.
    pub emulator: &'static str,
    /// Debian's package of it.
    pub package: &'static str,
    /// The processor, with what makes its clock count nanoseconds.
    pub cpu: &'static str,
    /// QEMU's other arguments for it.
    pub arguments: &'static [&'static str],
    /// Firmware that a guest's boot runs or may run.
    pub firmware: &'static [&'static str],
    /// The word of the kernel's command line for its console.
    pub console: &'static str,
    /// The same before there is a console.
    pub early_console: &'static str,
    /// The word with which the kernel waits in a loop while it is idle; empty where it has none.
    pub poll: &'static str,
    /// The processor in ELF headers.
    pub elf_machine: u16,
    /// What a program for another processor is called.
    pub other_processor: &'static str,
    /// The directories of libraries.
    pub libraries: &'static [&'static str],
    /// The directory of the libraries that a compiler for it brings along on another machine.
    pub sysroot: &'static str,
}

/// The bytes of the memory that a guest without I/O ports shares with the host, for its output.
pub const SHARED_BYTES: u64 = 512 << 20;

/// The device of that memory. Semihosting would need no driver either, but lets every program of the
/// guest open files of the host and start programs there (`SYS_OPEN`, `SYS_SYSTEM`).
const SHARED_MEMORY: [&str; 4] = [
    "-object",
    "memory-backend-file,id=out,mem-path=out,size=512M,share=on",
    "-device",
    "ivshmem-plain,memdev=out",
];

static AMD64: Board = Board {
    architecture: Architecture::Amd64,
    emulator: "qemu-system-x86_64",
    package: "qemu-system-x86",
    cpu: "qemu64,-rdrand",
    arguments: &[
        "-chardev",
        "file,id=r,path=out",
        "-device",
        "isa-debugcon,iobase=0xe9,chardev=r",
        "-device",
        "isa-debug-exit,iobase=0x501,iosize=2",
    ],
    firmware: &[
        "bios-256k.bin",
        "kvmvapic.bin",
        "linuxboot.bin",
        "linuxboot_dma.bin",
        "pvh.bin",
    ],
    console: "console=ttyS0",
    early_console: "earlyprintk=serial",
    poll: "idle=poll",
    elf_machine: elf::EM_X86_64,
    other_processor: "a program for another processor: the guests are x86-64",
    libraries: &[
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/lib64",
    ],
    sysroot: "/usr/x86_64-linux-gnu",
};

static ARM64: Board = Board {
    architecture: Architecture::Arm64,
    emulator: "qemu-system-aarch64",
    package: "qemu-system-arm",
    // Without this frequency the clock has steps of 16 ns.
    cpu: "cortex-a53,cntfrq=1000000000",
    arguments: &[
        "-machine",
        "virt,gic-version=3",
        SHARED_MEMORY[0],
        SHARED_MEMORY[1],
        SHARED_MEMORY[2],
        SHARED_MEMORY[3],
    ],
    firmware: &[],
    console: "console=ttyAMA0",
    early_console: "earlycon",
    poll: "nohlt",
    elf_machine: elf::EM_AARCH64,
    other_processor: "a program for another processor: the guests are arm64",
    libraries: &[
        "/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/lib64",
        "/usr/lib64",
    ],
    sysroot: "/usr/aarch64-linux-gnu",
};

static RISCV64: Board = Board {
    architecture: Architecture::Riscv64,
    emulator: "qemu-system-riscv64",
    package: "qemu-system-misc",
    cpu: "rv64",
    arguments: &[
        "-machine",
        "virt",
        SHARED_MEMORY[0],
        SHARED_MEMORY[1],
        SHARED_MEMORY[2],
        SHARED_MEMORY[3],
    ],
    firmware: &["opensbi-riscv64-generic-fw_dynamic.bin"],
    console: "console=ttyS0",
    early_console: "earlycon=sbi",
    poll: "",
    elf_machine: elf::EM_RISCV,
    other_processor: "a program for another processor: the guests are riscv64",
    libraries: &["/lib/riscv64-linux-gnu", "/usr/lib/riscv64-linux-gnu"],
    sysroot: "/usr/riscv64-linux-gnu",
};

impl Board {
    /// The one of an architecture.
    #[must_use]
    pub fn of(architecture: Architecture) -> &'static Self {
        match architecture {
            Architecture::Amd64 => &AMD64,
            Architecture::Arm64 => &ARM64,
            Architecture::Riscv64 => &RISCV64,
        }
    }

    /// Whether its guests write their output to I/O ports; the others write to shared memory.
    #[must_use]
    pub fn has_ports(&self) -> bool {
        self.architecture == Architecture::Amd64
    }

    /// Where this machine has a file of the guest: a loader for another processor comes with its compiler.
    #[must_use]
    pub fn here(&self, path: &Path) -> PathBuf {
        let brought = Path::new(self.sysroot).join(path.strip_prefix("/").unwrap_or(path));
        match path.exists() || !brought.exists() {
            true => path.to_owned(),
            false => brought,
        }
    }

    /// The directories in which this machine may have its libraries.
    pub fn folders(&self) -> impl Iterator<Item = String> {
        let own = self.libraries.iter().map(|it| (*it).to_owned());
        let common = ["/usr/local/lib", "/lib", "/usr/lib"].map(str::to_owned);
        own.chain(common).chain([format!("{}/lib", self.sysroot)])
    }
}
