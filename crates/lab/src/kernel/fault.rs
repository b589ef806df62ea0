//! What is wrong with a file that should be a kernel, and why apt has none.

use std::error::Error;
use std::fmt;
use std::io;

use punctual_record::laboratory::Architecture;

use super::image::Part;

/// What the laboratory boots, after what a file is instead.
const BOOTS: &str = "the laboratory boots kernels for amd64, arm64 and riscv64";
/// What a kernel is.
const A_KERNEL: &str =
    "a kernel is a bzImage (vmlinuz), an ELF vmlinux, an Image of another architecture or a .deb";

/// What a file is that is not a kernel for the laboratory; the text follows the file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// It is a directory, or not a regular file.
    NotAFile {
        /// It is a directory.
        directory: bool,
    },
    /// It has no bytes.
    Empty,
    /// It is an `ar` archive of another kind.
    Archive,
    /// It is a kernel for other guests.
    KernelFor {
        /// Their architecture.
        found: Architecture,
        /// That of the guest.
        wanted: Architecture,
    },
    /// It is an EFI program with a packed kernel, which only firmware can unpack.
    PackedEfi,
    /// It is a packed file.
    Packed {
        /// With what.
        with: &'static str,
    },
    /// It is nothing that is known.
    Unknown,
    /// It is a bzImage that does not state whether it is one of 64 bits.
    OldBzImage,
    /// It is a kernel of 32 bits.
    Bits32,
    /// It is the beginning of a bzImage.
    CutBzImage,
    /// It is a bzImage without a kernel.
    NoPayload,
    /// It is the beginning of an ELF file.
    CutElf,
    /// It is an ELF file for another processor.
    Processor {
        /// Its number in the ELF header.
        machine: u16,
    },
    /// It is an object file.
    Object,
    /// It is a program.
    Program,
    /// QEMU cannot boot the ELF image.
    NoPvh,
    /// It is a package for another processor.
    PackageFor {
        /// Which, as the package states it.
        found: String,
        /// That of the guest.
        wanted: Architecture,
    },
    /// The kernel in a package has an unexpected name.
    KernelName {
        /// Its path.
        path: String,
    },
    /// It holds several kernels.
    SeveralKernels,
    /// It is a package without a kernel.
    NoKernel {
        /// The package of a kernel that it depends on.
        depends: Option<String>,
    },
    /// The kernel in a package is unfit.
    Holds {
        /// The kernel's release.
        release: String,
        /// What it is.
        why: Box<Unfit>,
    },
    /// The kernel in a package is not a bzImage.
    HoldsOther {
        /// The kernel's release.
        release: String,
    },
    /// It is packed in an unknown way.
    Packing,
    /// It states a length that no kernel has.
    LongKernel {
        /// The length in bytes.
        bytes: u64,
    },
    /// A file in the package is longer than any that it should hold.
    LongFile {
        /// Its name.
        name: String,
        /// The most bytes.
        most: u64,
    },
    /// It needs too much memory to be unpacked.
    Memory,
    /// It holds no ELF image.
    NoElf,
    /// It states no release.
    NoRelease,
    /// It has no names of functions.
    NoNames,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NotAFile { directory: true } => return write!(f, "is a directory; {A_KERNEL}"),
            Self::NotAFile { .. } => return write!(f, "is not a regular file; {A_KERNEL}"),
            Self::KernelFor { found, wanted } => {
                return write!(
                    f,
                    "is a kernel for {found}, and the guest is {wanted}: give --arch {found}"
                );
            }
            Self::Packed { with } => {
                return write!(
                    f,
                    "is a file packed with {with}: unpack it first; {A_KERNEL}"
                );
            }
            Self::Bits32 => return write!(f, "is a 32-bit kernel; {BOOTS}"),
            Self::Processor { machine } => {
                write!(f, "is an ELF file for {}; ", Processor(*machine))?;
                return match *machine {
                    object::elf::EM_AARCH64 | object::elf::EM_RISCV => {
                        f.write_str("a kernel for it is booted from its Image (arch/*/boot/Image)")
                    }
                    _ => f.write_str(BOOTS),
                };
            }
            Self::PackageFor { found, wanted } => {
                write!(f, "is a package for {found}, and the guest is {wanted}")?;
                return match Architecture::named(found) {
                    Some(found) => write!(f, ": give --arch {found}"),
                    None => Ok(()),
                };
            }
            Self::KernelName { path } => {
                return write!(f, "holds a kernel with an unexpected name: {path}");
            }
            Self::NoKernel { depends } => {
                f.write_str("holds no kernel (boot/vmlinuz-*)")?;
                return match depends {
                    Some(name) => write!(f, ": it only depends on {name}, which does"),
                    None => Ok(()),
                };
            }
            Self::Holds { release, why } => {
                return write!(f, "holds a boot/vmlinuz-{release} that {why}");
            }
            Self::HoldsOther { release } => {
                return write!(f, "holds a boot/vmlinuz-{release} that is not a bzImage");
            }
            Self::LongKernel { bytes } => {
                return write!(
                    f,
                    "states an unpacked length of {bytes} bytes: too long for a kernel"
                );
            }
            Self::LongFile { name, most } => {
                return write!(
                    f,
                    "is not a kernel package: {name} in it is longer than {most} bytes"
                );
            }
            Self::PackedEfi => {
                "is a kernel packed into an EFI program (vmlinuz.efi), which only firmware unpacks: give \
                 its Image"
            }
            Self::Empty => "is empty",
            Self::Archive => "is an archive, not a Debian package",
            Self::Unknown => {
                "is not a kernel: neither a bzImage (vmlinuz) nor an ELF vmlinux nor an Image of another \
                 architecture nor a .deb"
            }
            Self::OldBzImage => "is a bzImage older than Linux 3.8: too old",
            Self::CutBzImage => "is a truncated bzImage",
            Self::NoPayload => "is a bzImage without a compressed kernel",
            Self::CutElf => "is a truncated ELF file",
            Self::Object => "is an object file or a kernel module, not a kernel",
            Self::Program => "is a program or a library, not a kernel",
            Self::NoPvh => {
                "cannot be booted by QEMU: it is not a kernel, or has no CONFIG_PVH; give its \
                 bzImage (vmlinuz)"
            }
            Self::SeveralKernels => "holds more than one kernel",
            Self::Packing => {
                "holds a kernel that is not packed with gzip, xz, zstd, lz4 or lzma: give the ELF \
                 vmlinux"
            }
            Self::Memory => "needs more than 128 MiB of memory to be unpacked",
            Self::NoElf => "holds no ELF image for x86-64",
            Self::NoRelease => "states no release (Linux version ...): it is not a kernel",
            Self::NoNames => {
                "has no function names: it has no System.map, and no CONFIG_KALLSYMS table that \
                 punctual can read"
            }
        };
        f.write_str(text)
    }
}

impl Error for Unfit {}

/// A processor by its number in ELF headers.
struct Processor(u16);

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use object::elf;
        f.write_str(match self.0 {
            elf::EM_386 => "32-bit x86",
            elf::EM_S390 => "s390",
            elf::EM_PPC64 => "powerpc64",
            elf::EM_ARM => "32-bit ARM",
            elf::EM_X86_64 => "x86-64, but not of 64 bits",
            elf::EM_AARCH64 => "aarch64",
            elf::EM_RISCV => "riscv",
            elf::EM_LOONGARCH => "loongarch",
            other => return write!(f, "machine {other}"),
        })
    }
}

/// How a file is cut short or altered.
#[derive(Debug)]
#[non_exhaustive]
pub enum Damage {
    /// Its hash is not the one that apt states.
    Hash,
    /// The packed kernel ends behind the file.
    PackedEnd {
        /// Where the header places it.
        offset: u64,
        /// Its length in bytes.
        bytes: u64,
        /// Bytes of the file.
        length: u64,
    },
    /// It has another unpacked length than it states.
    Unpacked {
        /// Bytes that it states.
        stated: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// A part that a header names ends behind the file.
    PartEnd {
        /// The part.
        part: Part,
        /// Bytes of the file.
        length: u64,
    },
    /// It refers to a place that no file has.
    BeyondEnd,
    /// It ends too early.
    Cut,
    /// It cannot be unpacked.
    Unpack(io::Error),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash => f.write_str("its SHA-256 is not the one that apt states"),
            Self::PackedEnd {
                offset,
                bytes,
                length,
            } => write!(
                f,
                "its header places {bytes} bytes of packed kernel at offset {offset}, to end at \
                 {}; the file has {length} bytes",
                offset.saturating_add(*bytes)
            ),
            Self::Unpacked { stated, found } => {
                write!(f, "it states {stated} unpacked bytes, but has {found}")
            }
            Self::PartEnd { part, length } => write!(
                f,
                "its {} has {} bytes at offset {}, to end at {}; the file has {length} bytes",
                part.what,
                part.length,
                part.offset,
                part.end()
            ),
            Self::BeyondEnd => f.write_str("it refers to a place beyond its end"),
            Self::Cut => f.write_str("it ends too early"),
            Self::Unpack(error) => error.fmt(f),
        }
    }
}

impl Error for Damage {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unpack(error) => Some(error),
            _ => None,
        }
    }
}

/// Why no kernel of a name can be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoPackage {
    /// It is not the name of a kernel, and not that of a file.
    NotAName,
    /// The lab was not planned with it.
    NotInLab,
    /// There is no apt.
    NoApt,
    /// apt cannot be run.
    NotRun(io::Error),
    /// apt cannot download it.
    Refused {
        /// apt's own line; empty where there is none.
        output: String,
    },
    /// apt downloaded it, and there is no file.
    NoFile,
    /// apt knows no kernels.
    NoKernels,
    /// apt's sources have no kernels for another architecture than this system's.
    NoKernelsFor {
        /// Which.
        architecture: Architecture,
    },
    /// apt does not have it.
    NoSuch {
        /// Those of the same kind that it has.
        has: Vec<String>,
        /// The codename of a Debian without backports.
        without_backports: Option<String>,
    },
    /// It is for another processor.
    Architecture {
        /// The package.
        name: String,
        /// The processor, as the package states it.
        architecture: String,
        /// That of the guest.
        wanted: Architecture,
    },
    /// It is installed, and in no archive.
    InstalledOnly {
        /// The package.
        name: String,
        /// Its version.
        version: String,
    },
}

impl fmt::Display for NoPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAName => f.write_str(
                "expected a file, rt, standard, cloud, a release (6.12, 6.12-rt) or a package \
                 (linux-image-...)",
            ),
            Self::NotInLab => f.write_str("the lab has no such kernel"),
            Self::NoApt => f.write_str(
                "kernel names are looked up with apt, which is not installed: give the path of a \
                 Debian package (linux-image-*.deb) or of a bzImage",
            ),
            Self::NotRun(error) => write!(f, "cannot run apt: {error}"),
            Self::Refused { output } if output.is_empty() => f.write_str("apt-get download failed"),
            Self::Refused { output } => f.write_str(output),
            Self::NoFile => f.write_str("apt-get download left no file"),
            Self::NoKernelsFor { architecture } => write!(
                f,
                "the sources of this system's apt have no kernels for {architecture}, or the network is \
                 not there: give the path of an Image or a Debian package"
            ),
            Self::NoKernels => f.write_str("apt knows no kernels: run sudo apt-get update"),
            Self::NoSuch {
                has,
                without_backports,
            } => {
                f.write_str("apt has no such package")?;
                if !has.is_empty() {
                    write!(f, "; it has {}", has.join(", "))?;
                }
                match without_backports {
                    Some(codename) => write!(
                        f,
                        "; more may be in backports: name {codename}-backports among the suites of \
                         apt's sources, then apt-get update"
                    ),
                    None => Ok(()),
                }
            }
            Self::Architecture {
                name,
                architecture,
                wanted,
            } => write!(f, "{name} is for {architecture}, and the guest is {wanted}"),
            Self::InstalledOnly { name, version } => write!(
                f,
                "{name} {version} is installed here and not in any archive that apt knows: give \
                 the path of its image in /boot"
            ),
        }
    }
}

impl Error for NoPackage {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotRun(error) => Some(error),
            _ => None,
        }
    }
}
