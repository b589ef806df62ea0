//! Where a run was made in the laboratory, and all that it depends on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The architecture of a guest, named as Debian names it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// x86-64.
    #[default]
    Amd64,
    /// AArch64.
    Arm64,
    /// RISC-V with 64 bits.
    Riscv64,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Amd64, Self::Arm64, Self::Riscv64];

    /// The one that this program was built for.
    pub const OWN: Self = if cfg!(target_arch = "aarch64") {
        Self::Arm64
    } else if cfg!(target_arch = "riscv64") {
        Self::Riscv64
    } else {
        Self::Amd64
    };

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Riscv64 => "riscv64",
        }
    }

    /// The one of this name, also of the names that kernels and compilers use.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "amd64" | "x86_64" | "x86-64" => Some(Self::Amd64),
            "arm64" | "aarch64" => Some(Self::Arm64),
            "riscv64" => Some(Self::Riscv64),
            _ => None,
        }
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How time passed in a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GuestTime {
    /// One processor; an instruction is a nanosecond. Figures repeat exactly.
    Virtual,
    /// Several processors at the host's pace: what is measured is no latency.
    Host,
}

/// Where a record was made in the laboratory, and all that it depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Laboratory {
    /// The guest's architecture; records from before there was a choice have none.
    #[serde(default)]
    pub architecture: Architecture,
    /// The kernel as it was requested: a name or a path.
    pub kernel: String,
    /// Its release.
    pub release: String,
    /// Its package and that one's version, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Words added to the kernel's command line.
    pub parameters: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// Processors.
    pub cpus: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// What ran: our own verb with its flags, or a program's name with its arguments.
    pub words: Vec<String>,
    /// That program's file on the host; absent for a verb of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Modules that were requested and loaded before it, with those that they need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// Files on the host that were brought along beside the program, `FILE` or `FILE=GUESTPATH`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brought: Vec<String>,
    /// The root file system on the host that was the guest's userspace, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<String>,
    /// Virtual time that it might have taken.
    pub virtual_limit_ns: u64,
    /// For a program, the loads beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// How time passed.
    pub time: GuestTime,
    /// Virtual time from boot to the first process; a canary of identical machines.
    pub boot_ns: u64,
    /// Virtual time from boot to the end.
    pub virtual_ns: u64,
    /// What it all depends on.
    pub fingerprint: Fingerprint,
}

/// SHA-256 of all that a result depends on, and of the result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fingerprint {
    /// QEMU's version.
    pub emulator: String,
    /// QEMU's program.
    pub emulator_sha256: String,
    /// Files of its firmware.
    pub firmware_sha256: BTreeMap<String, String>,
    /// The kernel's image.
    pub kernel_sha256: String,
    /// The guest's files, this program and its parameters among them.
    pub initramfs_sha256: String,
    /// QEMU's arguments, the kernel's command line among them.
    pub command_sha256: String,
    /// What the guest handed out.
    pub result_sha256: String,
}

/// Something that a result depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Dependency {
    /// QEMU.
    Emulator,
    /// Its firmware.
    Firmware,
    /// The kernel.
    Kernel,
    /// The guest's files: this program, or its parameters.
    GuestFiles,
    /// QEMU's arguments.
    Command,
}

impl Fingerprint {
    /// In what two machines differ, before anything ran on them.
    #[must_use]
    pub fn differs_in(&self, other: &Self) -> Vec<Dependency> {
        let emulator =
            self.emulator_sha256 == other.emulator_sha256 && self.emulator == other.emulator;
        let pairs = [
            (Dependency::Emulator, emulator),
            (
                Dependency::Firmware,
                self.firmware_sha256 == other.firmware_sha256,
            ),
            (
                Dependency::Kernel,
                self.kernel_sha256 == other.kernel_sha256,
            ),
            (
                Dependency::GuestFiles,
                self.initramfs_sha256 == other.initramfs_sha256,
            ),
            (
                Dependency::Command,
                self.command_sha256 == other.command_sha256,
            ),
        ];
        let different = pairs.into_iter().filter(|(_, same)| !same);
        different.map(|(dependency, _)| dependency).collect()
    }
}
