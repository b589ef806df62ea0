//! One cell of the laboratory: a kernel, the work on it, a seed; from the initramfs to the record.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::board::Board;
use super::bring::Brought;
use super::channel::{self, sha256};
use super::error::LabError;
use super::guest::{INIT, VERB};
use super::initramfs::Initramfs;
use super::job::{End, JOB_FILE, Job, JobResult, OURSELVES, OUT};
use super::kernel::Kernel;
use super::libraries;
use super::machine::{Machine, Time, tail};
use super::qemu::Qemu;
use super::room::Room;
use super::rootfs::{self, RootfsError};
use super::work::WorkFolder;
use punctual_record::lab::{LabBill, LabBound, LabCost, LabLoad, NoBill, NoBound, NoResult};
use punctual_record::laboratory::{Fingerprint, GuestTime, Laboratory};
use punctual_record::{Condition, Demand, Document, Fix, Run};

/// The laboratory's own words of the kernel's command line. The tests of ciphers are half of a boot, and
/// nobody uses one.
const OWN_WORDS: &str = "quiet panic=-1 nokaslr norandmaps cryptomgr.notests";
/// The longest command line of a kernel.
const COMMAND_LINE: usize = 2047;

/// The name with which this program is a [`Work::Program`] like any other. It is no file's path:
/// those contain a directory.
pub const OWN_NAME: &str = "punctual";

/// What runs in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// This program, with these words.
    Own(Vec<String>),
    /// Another program with its arguments, and its loads.
    Program {
        /// Its file on the host, or [`OWN_NAME`].
        file: PathBuf,
        /// Its name and its arguments.
        words: Vec<String>,
        /// Loads, in the form of `--load`.
        load: Option<String>,
    },
}

impl Work {
    /// Whether this program executes a task set.
    #[must_use]
    pub fn executes_tasks(&self) -> bool {
        matches!(self, Self::Own(words) if words.first().is_some_and(|word| word == "exec"))
    }
}

/// A cell to run.
#[derive(Debug, Clone)]
pub struct CellPlan<'a> {
    /// The emulator.
    pub qemu: &'a Qemu,
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Words for its command line.
    pub parameters: Vec<String>,
    /// What runs.
    pub work: Work,
    /// Modules of the kernel by name, or files of other modules; the modules that they need are added.
    pub modules: Vec<String>,
    /// Further files of the host, `FILE` or `FILE=GUESTPATH`; programs with their libraries, except in a
    /// root file system given by the user.
    pub brought: Vec<PathBuf>,
    /// The guest's userspace: a directory, a tar, an OCI layout.
    pub rootfs: Option<PathBuf>,
    /// The seed.
    pub seed: u64,
    /// Processors.
    pub cpus: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Its limit of virtual time from boot.
    pub virtual_limit: Duration,
    /// Its limit of the host's time.
    pub host_limit: Duration,
    /// Its limit of the host's processor time until its first process runs.
    pub boot_limit: Duration,
}

/// Observes a guest from outside: it adds arguments for QEMU, and reads what QEMU leaves in the
/// guest's folder. What the guest sees must not depend on it.
pub trait Watcher: Sync {
    /// Arguments for QEMU, which runs in `folder`.
    ///
    /// # Errors
    /// A file in `folder` cannot be written.
    fn arguments(&self, plan: &CellPlan<'_>, folder: &Path) -> Result<Vec<OsString>, LabError>;

    /// Reads the files in `folder` after the guest has ended; `cell` is the result.
    ///
    /// # Errors
    /// A file in `folder` cannot be read.
    fn take(
        &self,
        plan: &CellPlan<'_>,
        folder: &Path,
        made: &mut CellResult,
    ) -> Result<(), LabError>;
}

/// The result of a cell.
#[derive(Debug, Clone)]
pub struct CellResult {
    /// The record, if `measure` or `qualify` left one.
    pub run: Option<Run>,
    /// Other files of the work, by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Captured standard output.
    pub stdout: Vec<u8>,
    /// Captured standard error.
    pub stderr: Vec<u8>,
    /// Its exit status; if a signal ended it, 128 plus the signal's number, as in shells.
    pub status: i32,
    /// The work of the loads.
    pub loads: Vec<LabLoad>,
    /// What was not available in the guest.
    pub lacking: BTreeMap<String, String>,
    /// Words of the kernel's command line that the kernel didn't know.
    pub unknown: Vec<String>,
    /// The bills of the worst wake-ups, if the guest was observed.
    pub bills: Vec<LabBill>,
    /// Why there is no bill of the worst wake-up, if the guest was observed.
    pub no_bill: Option<NoBill>,
    /// The mark of the worst wake-up, if its instructions were not kept.
    pub missed_mark: Option<u64>,
    /// How late a wake-up could have been, if that was measured.
    pub bound: Option<LabBound>,
    /// Why there is no bound, if one was wanted.
    pub no_bound: Option<NoBound>,
    /// What operations cost, if they were made.
    pub cost: Option<LabCost>,
    /// Everything that it depends on.
    pub laboratory: Laboratory,
    /// The host's time that it needed.
    pub took: Duration,
}

impl CellPlan<'_> {
    /// The kernel's command line.
    ///
    /// # Errors
    /// It is too long.
    pub fn command_line(&self) -> Result<String, LabError> {
        let board = self.board();
        let mut words = vec![board.console.to_owned(), OWN_WORDS.to_owned()];
        words.extend(self.polls().then(|| board.poll.to_owned()));
        words.push(format!("lab.seed={}", self.seed));
        words.extend(self.parameters.iter().cloned());
        words.push(format!("-- {VERB} {INIT}"));
        let line = words.join(" ");
        if line.len() > COMMAND_LINE {
            return Err(LabError::CommandLine {
                characters: line.len(),
                most: COMMAND_LINE,
            });
        }
        Ok(line)
    }

    fn job(&self, program: String, modules: Vec<String>) -> Job {
        let (words, load) = match &self.work {
            Work::Own(words) => {
                let mut all = vec!["punctual".to_owned()];
                all.extend(words.iter().cloned());
                all.extend(["-o".to_owned(), OUT.to_owned()]);
                (all, None)
            }
            Work::Program { words, load, .. } => (words.clone(), load.clone()),
        };
        Job {
            program,
            words,
            load,
            seed: self.seed,
            modules,
            rooted: self.rootfs.is_some(),
            virtual_limit_ns: u64::try_from(self.virtual_limit.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The guest's files; `own` is this program, as [`guest_program::read`](super::guest_program::read)
    /// checks and returns it.
    ///
    /// # Errors
    /// A file cannot be read, or a library was not found.
    pub fn initramfs(&self, own: &[u8]) -> Result<Vec<u8>, LabError> {
        let mut archive = Initramfs::new();
        let mut room = Room::for_memory(self.memory_mib);
        room.reserve_for(Path::new(OURSELVES), own.len() as u64)?;
        archive.file(OURSELVES, own.to_vec(), true);
        archive.link("bin/punctual", OURSELVES);
        for folder in ["dev", "proc", "sys", "tmp", "run", "root", "out", "etc"] {
            archive.folder(folder);
        }
        archive.device("dev/console", 5, 1);
        archive.device("dev/null", 1, 3);
        let line = |text: &str| text.as_bytes().to_vec();
        archive.file("etc/passwd", line("root:x:0:0:root:/root:/bin/sh\n"), false);
        archive.file("etc/group", line("root:x:0:\n"), false);
        archive.file("etc/hosts", line("127.0.0.1 localhost lab\n"), false);
        archive.file(
            "etc/nsswitch.conf",
            line("passwd: files\ngroup: files\nhosts: files\n"),
            false,
        );
        let program = match &self.rootfs {
            None => self.bring(&mut archive, &mut room)?,
            Some(rootfs) => self.bring_root(rootfs, &mut archive, &mut room)?,
        };
        let mut modules: Vec<String> = Vec::new();
        for module in self
            .kernel
            .modules(&self.modules)
            .map_err(LabError::Kernel)?
        {
            let path = format!("/lab/modules/{}.ko", module.name);
            room.reserve_for(Path::new(&path), module.bytes.len() as u64)?;
            archive.file(&path, module.bytes, false);
            modules.push(path);
        }
        let job = serde_json::to_vec(&self.job(program, modules))
            .map_err(|error| LabError::file(JOB_FILE, error.into()))?;
        archive.file(JOB_FILE, job, false);
        Ok(archive.bytes())
    }

    /// Adds the program to a guest without a root file system; returns its path in the guest.
    fn bring(&self, archive: &mut Initramfs, room: &mut Room) -> Result<String, LabError> {
        let program = match &self.work {
            Work::Own(_) => OURSELVES.to_owned(),
            Work::Program { file, .. } if file == Path::new(OWN_NAME) => OURSELVES.to_owned(),
            Work::Program { file, .. } => libraries::bring(archive, file, self.board(), room)?,
        };
        for asked in &self.brought {
            Brought::parse(asked)?.add(archive, self.board(), room)?;
        }
        Ok(program)
    }

    /// Adds the root file system given by the user; returns the program's name or path in it.
    fn bring_root(
        &self,
        path: &Path,
        archive: &mut Initramfs,
        room: &mut Room,
    ) -> Result<String, LabError> {
        let refused = |source: RootfsError| LabError::Rootfs {
            path: path.to_owned(),
            source,
        };
        let mut tree = rootfs::read(path, self.board(), room)?;
        for asked in &self.brought {
            Brought::parse(asked)?.add_to(&mut tree, room)?;
        }
        let program = match &self.work {
            Work::Own(_) => OURSELVES.to_owned(),
            Work::Program { file, .. } if file == Path::new(OWN_NAME) => OURSELVES.to_owned(),
            Work::Program { file, .. } => {
                let word = file.to_string_lossy().into_owned();
                rootfs::program(&mut tree, &word, self.board()).map_err(refused)?;
                word
            }
        };
        rootfs::put(tree, archive, room).map_err(refused)?;
        Ok(program)
    }

    /// Runs the cell; `own` is this program. `ends` says whether a signal asks this program to stop.
    ///
    /// # Errors
    /// Why there is no result; no file is left.
    pub fn make(
        &self,
        own: &[u8],
        watcher: Option<&dyn Watcher>,
        ends: &dyn Fn() -> bool,
    ) -> Result<CellResult, NoResult> {
        let folder = WorkFolder::make()?;
        let initramfs = self.initramfs(own)?;
        folder.write("initramfs", &initramfs)?;
        let initramfs_sha256 = sha256(&initramfs);
        drop(initramfs);
        let extra = match watcher {
            Some(watcher) => watcher.arguments(self, folder.path())?,
            None => Vec::new(),
        };
        let mut machine = Machine {
            qemu: self.qemu,
            kernel: &self.kernel.image,
            patches: if self.polls() {
                &self.kernel.patches
            } else {
                &[]
            },
            command_line: self.command_line()?,
            cpus: self.cpus,
            memory_mib: self.memory_mib,
            extra,
            host_limit: self.host_limit,
            boot_limit: self.boot_limit,
        };
        let came = match machine.run(&folder, ends) {
            Ok(came) => came,
            Err(error) => return Err(machine.explain_early_death(&folder, ends, error)),
        };
        let mut frames = match channel::parse(&came.stream) {
            Ok(frames) => frames,
            Err(error) => {
                let error = came.without_result(error);
                return Err(machine.explain_early_death(&folder, ends, error));
            }
        };
        let result = frames.remove("result").ok_or(NoResult::NoFrame)?;
        let result: JobResult = serde_json::from_slice(result).map_err(unreadable)?;
        let mut taken = |name: &str| frames.remove(name).unwrap_or_default().to_vec();
        let (stdout, stderr) = (taken("stdout"), taken("stderr"));
        let last = tail(&String::from_utf8_lossy(&stderr));
        let status = match result.end {
            End::Exited { status } => status,
            End::Signalled { signal } => 128 + signal,
            End::TimeOver => {
                return Err(NoResult::VirtualLimit {
                    seconds: self.virtual_limit.as_secs(),
                    output: last,
                });
            }
            End::Failed { fault } => return Err(NoResult::Guest { fault }),
        };
        let fingerprint = Fingerprint {
            emulator: self.qemu.version.clone(),
            emulator_sha256: self.qemu.sha256.clone(),
            firmware_sha256: self.qemu.firmware.clone(),
            kernel_sha256: self.kernel.sha256.clone(),
            initramfs_sha256,
            command_sha256: machine.command_sha256(),
            result_sha256: sha256(&came.stream),
        };
        let laboratory = self.laboratory(&result.release, &result, fingerprint);
        let files: BTreeMap<String, Vec<u8>> = frames
            .into_iter()
            .filter_map(|(name, bytes)| Some((name.strip_prefix("out/")?.to_owned(), bytes)))
            .map(|(name, bytes)| (name, bytes.to_vec()))
            .collect();
        let mut made = CellResult {
            run: None,
            files,
            stdout,
            stderr,
            status,
            loads: work_of(result.loads),
            lacking: result.lacking,
            unknown: result.unknown,
            bills: Vec::new(),
            no_bill: None,
            missed_mark: None,
            bound: None,
            no_bound: None,
            cost: None,
            laboratory,
            took: came.took,
        };
        if matches!(self.work, Work::Own(_)) {
            let run = made.own_record(status, &last)?;
            let verdict = run.verdict.as_ref();
            if let (GuestTime::Host, Some(verdict)) = (made.laboratory.time, verdict) {
                made.status = verdict.outcome.exit_code().into();
            }
            made.loads = run
                .loads
                .iter()
                .map(|load| LabLoad {
                    name: load.name.clone(),
                    work: load.work,
                    unit: load.unit.clone(),
                    rate: load.rate,
                })
                .collect();
            made.run = Some(run);
        }
        if let Some(watcher) = watcher {
            watcher.take(self, folder.path(), &mut made)?;
        }
        Ok(made)
    }

    /// Whether the kernel waits in a loop while it is idle.
    fn polls(&self) -> bool {
        Time::with_cpus(self.cpus) == Time::Virtual && !self.board().poll.is_empty()
    }

    /// The machine that is emulated.
    #[must_use]
    pub fn board(&self) -> &'static Board {
        Board::of(self.kernel.architecture)
    }

    fn laboratory(
        &self,
        release: &str,
        result: &JobResult,
        fingerprint: Fingerprint,
    ) -> Laboratory {
        let (words, program, load) = match &self.work {
            Work::Own(words) => (words.clone(), None, None),
            Work::Program { file, words, load } => {
                let file = file.to_string_lossy().into_owned();
                (words.clone(), Some(file), load.clone())
            }
        };
        let package = self.kernel.package.as_ref();
        Laboratory {
            architecture: self.kernel.architecture,
            kernel: self.kernel.asked.clone(),
            release: release.to_owned(),
            package: package.map(|package| format!("{} {}", package.name, package.version)),
            parameters: self.parameters.clone(),
            seed: self.seed,
            cpus: self.cpus as u64,
            memory_mib: self.memory_mib,
            words,
            program,
            modules: self.modules.clone(),
            brought: self
                .brought
                .iter()
                .map(|file| file.to_string_lossy().into_owned())
                .collect(),
            rootfs: self
                .rootfs
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned()),
            virtual_limit_ns: u64::try_from(self.virtual_limit.as_nanos()).unwrap_or(u64::MAX),
            load,
            time: match Time::with_cpus(self.cpus) {
                Time::Virtual => GuestTime::Virtual,
                Time::Host => GuestTime::Host,
            },
            boot_ns: result.boot_ns,
            virtual_ns: result.virtual_ns,
            fingerprint,
        }
    }
}

fn unreadable(error: impl Error) -> NoResult {
    NoResult::Unreadable {
        error: error.to_string(),
    }
}

/// The reports of the loads beside a program; empty if they cannot be parsed.
fn work_of(loads: Option<serde_json::Value>) -> Vec<LabLoad> {
    loads
        .and_then(|loads| serde_json::from_value(loads).ok())
        .unwrap_or_default()
}

impl CellResult {
    /// The record that `measure` or `qualify` left, with its origin.
    fn own_record(&mut self, status: i32, last: &str) -> Result<Run, NoResult> {
        let Some(bytes) = self.files.remove(Run::FILE) else {
            return Err(NoResult::Inside {
                status,
                output: last.to_owned(),
            });
        };
        let run = Run::parse(Path::new(Run::FILE), &bytes);
        let mut run = run.map_err(unreadable)?;
        if self.laboratory.time == GuestTime::Host {
            refuse_latencies(&mut run, self.laboratory.cpus);
        }
        run.laboratory = Some(self.laboratory.clone());
        // The guest did not know that its time is virtual, so its advice assumes chance.
        if run.repeats()
            && let Ok(analysis) = punctual_record::analyse_record(&run)
        {
            run.conclude(analysis);
        }
        Ok(run)
    }
}

/// Several processors of an emulator wait for each other and for the host: their figures are not
/// latencies, and the record must not say so.
fn refuse_latencies(run: &mut Run, cpus: u64) {
    let condition = Condition::VirtualTime { cpus };
    run.demands
        .push(Demand::requested(condition, false, || Fix::OneCpu));
    if let Ok(analysis) = punctual_record::analyse_record(run) {
        run.conclude(analysis);
    }
}
