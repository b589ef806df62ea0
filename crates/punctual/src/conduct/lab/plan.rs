//! The plan of a lab, and its cells on this host.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::cells::{self, Cell};
use punctual_lab::cell::Work;
use punctual_lab::guest_program;
use punctual_lab::kernel::{self, Cache, Kernel, Tell};
use punctual_lab::{CellPlan, LabError, Qemu};
use punctual_record::lab::LabVariant;
use punctual_record::laboratory::Architecture;

/// A lab that can run.
#[derive(Debug, Clone)]
pub struct LabPlan {
    /// The guests' architecture.
    pub architecture: Architecture,
    /// The columns of its table.
    pub columns: Vec<Column>,
    /// Everything is run with seeds from 1 to this.
    pub seeds: u64,
    /// Processors of each guest.
    pub cpus: usize,
    /// Memory of each guest in MiB.
    pub memory_mib: u64,
    /// Modules of the kernel that are loaded first.
    pub modules: Vec<String>,
    /// Files of the host in each guest.
    pub brought: Vec<PathBuf>,
    /// The root file system of each guest, if the user gave one.
    pub rootfs: Option<PathBuf>,
    /// How long each guest may take.
    pub limits: Limits,
}

/// How long a guest may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of virtual time.
    pub virtual_time: Duration,
    /// Of the host's time.
    pub host: Duration,
    /// Of the host's processor time until its first process runs.
    pub boot: Duration,
}

/// One column of the table.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The kernel's name, as the user gave it.
    pub kernel: String,
    /// Words for its command line.
    pub parameters: Vec<String>,
    /// A row for each of these.
    pub parts: Vec<Part>,
    /// Its command, if its machine has several.
    pub variant: Option<LabVariant>,
    /// The file that a program leaves its figures in.
    pub result: Option<String>,
}

/// One load and the work under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The load's name in the table.
    pub load: String,
    /// What runs.
    pub work: Work,
    /// Files of the host that it needs in the guest, beside those of all guests.
    pub brought: Vec<PathBuf>,
}

/// Why the cells cannot be prepared.
#[derive(Debug)]
pub enum BenchError {
    /// The emulator is not available, or this program cannot be read.
    Lab(LabError),
    /// A kernel is not available.
    Kernel(kernel::Error),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lab(error) => error.fmt(f),
            Self::Kernel(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lab(error) => error.source(),
            Self::Kernel(error) => error.source(),
        }
    }
}

/// What cells need: the emulator, the kernels, and this program.
#[derive(Debug)]
pub struct Bench {
    qemu: Qemu,
    kernels: Vec<Kernel>,
    own: Vec<u8>,
}

impl Bench {
    /// Finds all of it; `tell` receives each step that takes time.
    ///
    /// # Errors
    /// What is not available.
    pub fn find<'k>(
        architecture: Architecture,
        kernels: impl Iterator<Item = &'k str>,
        tell: Tell<'_>,
    ) -> Result<Self, BenchError> {
        let qemu = Qemu::find(architecture).map_err(BenchError::Lab)?;
        let own = guest_program::read(architecture).map_err(BenchError::Lab)?;
        let mut found: Vec<Kernel> = Vec::new();
        for name in kernels {
            if !found.iter().any(|kernel| kernel.asked == name) {
                let cache = Cache::for_user().map_err(BenchError::Kernel)?;
                found.push(
                    kernel::find(name, architecture, &cache, tell).map_err(BenchError::Kernel)?,
                );
            }
        }
        Ok(Self {
            qemu,
            kernels: found,
            own,
        })
    }

    /// The emulator.
    #[must_use]
    pub fn qemu(&self) -> &Qemu {
        &self.qemu
    }

    /// A kernel by the name that the user gave.
    ///
    /// # Errors
    /// The lab has no such kernel.
    pub fn kernel(&self, asked: &str) -> Result<&Kernel, LabError> {
        let mut kernels = self.kernels.iter();
        kernels.find(|kernel| kernel.asked == asked).ok_or_else(|| {
            LabError::Kernel(kernel::Error::Package {
                asked: asked.to_owned(),
                why: kernel::NoPackage::NotInLab,
            })
        })
    }

    /// This program.
    #[must_use]
    pub fn own(&self) -> &[u8] {
        &self.own
    }
}

/// All cells of a lab, those of a column together. Impossible cells are refused here, before
/// anything runs.
///
/// # Errors
/// A cell that cannot run.
pub fn plan<'a>(lab: &LabPlan, bench: &'a Bench) -> Result<Vec<Cell<'a>>, LabError> {
    let names = cells::folders(lab.columns.iter().map(|column| &*column.name));
    let mut cells: Vec<Cell<'a>> = Vec::new();
    let mut firsts = Vec::new();
    for (column, folder) in lab.columns.iter().zip(&names) {
        let kernel = bench.kernel(&column.kernel)?;
        firsts.push(cells.len());
        for part in &column.parts {
            for seed in 1..=lab.seeds {
                let plan = CellPlan {
                    qemu: &bench.qemu,
                    kernel,
                    parameters: column.parameters.clone(),
                    work: part.work.clone(),
                    modules: lab.modules.clone(),
                    brought: brought(lab, part),
                    rootfs: lab.rootfs.clone(),
                    seed,
                    cpus: lab.cpus,
                    memory_mib: lab.memory_mib,
                    virtual_limit: lab.limits.virtual_time,
                    host_limit: lab.limits.host,
                    boot_limit: lab.limits.boot,
                };
                plan.command_line()?;
                cells.push(Cell {
                    plan,
                    column: column.name.clone(),
                    load: part.load.clone(),
                    variant: column.variant.clone(),
                    result: column.result.clone(),
                    directory: cells::folder(folder, &part.load, seed, lab.seeds),
                });
            }
        }
    }
    for cell in firsts.into_iter().filter_map(|first| cells.get(first)) {
        cell.plan.initramfs(&bench.own)?;
    }
    Ok(cells)
}

/// The files of a cell; a file that the user brings as well is there once.
fn brought(lab: &LabPlan, part: &Part) -> Vec<PathBuf> {
    let more = part.brought.iter().filter(|it| !lab.brought.contains(it));
    lab.brought.iter().chain(more).cloned().collect()
}
