//! `lab verify`: the same again, and whether it is the same.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use punctual_stats::verdict::Outcome as VerdictOutcome;

use super::super::failure::Failure;
use super::super::out;
use super::cells::{self, Cell};
use super::flags::LabVerifyFlags;
use super::progress::StatusLine;
use super::{find_kernel, host_cpus, own_program};
use crate::conduct::Signals;
use punctual_lab::cell::Work;
use punctual_lab::kernel::Kernel;
use punctual_lab::{CellPlan, Made, Qemu};
use punctual_record::Run;
use punctual_record::lab::{is_lab, read_lab};
use punctual_record::laboratory::{GuestTime, Laboratory};
use punctual_report::lab::{self as report, label_of};

/// The host's time that one machine may take.
const HOST_LIMIT: Duration = Duration::from_secs(3600);

/// The host's processor time that a boot may take.
const BOOT_LIMIT: Duration = Duration::from_secs(600);

/// One record that is to be made again.
struct Before {
    column: String,
    load: String,
    laboratory: Laboratory,
    run: Option<Run>,
}

/// Runs it again and says what differs.
///
/// # Errors
/// What can't be read or made.
pub fn run(flags: &LabVerifyFlags) -> Result<ExitCode, Failure> {
    let before = read(&flags.record)?;
    if let Some(record) = before
        .iter()
        .find(|record| record.laboratory.time == GuestTime::Host)
    {
        return Err(Failure::usage(format!(
            "{}: {} processors ran at the host's pace, which never is the same again",
            flags.record.display(),
            record.laboratory.cpus
        )));
    }
    let qemu = Qemu::find().map_err(Failure::setup)?;
    let own = own_program()?;
    let mut kernels: Vec<Kernel> = Vec::new();
    for record in &before {
        if !kernels.iter().any(|k| k.asked == record.laboratory.kernel) {
            kernels.push(find_kernel(&record.laboratory.kernel)?);
        }
    }
    let cells: Vec<Cell<'_>> = before
        .iter()
        .map(|record| again(record, &qemu, &kernels))
        .collect::<Result<_, _>>()?;
    let signals = Signals::listen().map_err(Failure::setup)?;
    let jobs = flags.jobs.unwrap_or_else(host_cpus).min(cells.len());
    let ends = || signals.end().is_some();
    let mut status = StatusLine::new(false);
    let outcomes = cells::make_all(&cells, &own, jobs, None, &ends, &mut |_, progress| {
        status.draw(&progress.line(Instant::now()));
    });
    drop(status);
    let mut differ = 0;
    for (record, outcome) in before.iter().zip(outcomes) {
        let label = label_of(&record.column, &record.load, record.laboratory.seed);
        let made = match outcome {
            Some(Ok(made)) => made,
            Some(Err(error)) => return Err(Failure::setup(format!("{label}: {error}"))),
            None => return Err(Failure::setup("interrupted")),
        };
        let (same, words) = judge(record, &made);
        differ += usize::from(!same);
        out::print(&format!("{label}: {words}\n"));
    }
    Ok(if differ == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(VerdictOutcome::Fail.exit_code())
    })
}

fn read(path: &Path) -> Result<Vec<Before>, Failure> {
    if !is_lab(path) {
        let run = punctual_record::read(path).map_err(Failure::setup)?;
        let Some(laboratory) = run.laboratory.clone() else {
            return Err(Failure::usage(format!(
                "{}: was not made in the laboratory, so it can't be made again",
                path.display()
            )));
        };
        return Ok(vec![Before {
            column: laboratory.kernel.clone(),
            load: run.request.load.clone(),
            laboratory,
            run: Some(run),
        }]);
    }
    let (lab, directory) = read_lab(path).map_err(Failure::setup)?;
    let mut found = Vec::new();
    for cell in lab.cells {
        let Some(laboratory) = cell.laboratory else {
            continue;
        };
        let own = laboratory.program.is_none();
        let run = own.then(|| punctual_record::read(&directory.join(&cell.directory)));
        found.push(Before {
            column: cell.kernel,
            load: cell.load,
            laboratory,
            run: run.transpose().map_err(Failure::setup)?,
        });
    }
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "{}: holds no cell with a result",
            path.display()
        )));
    }
    Ok(found)
}

fn again<'a>(record: &Before, qemu: &'a Qemu, kernels: &'a [Kernel]) -> Result<Cell<'a>, Failure> {
    let lab = &record.laboratory;
    let kernel = kernels
        .iter()
        .find(|kernel| kernel.asked == lab.kernel)
        .ok_or_else(|| Failure::setup("the kernel is gone"))?;
    let words = lab.words.clone();
    let plan = CellPlan {
        qemu,
        kernel,
        parameters: lab.parameters.clone(),
        work: match &lab.program {
            None => Work::Own(words),
            Some(file) => Work::Program {
                file: PathBuf::from(file),
                words,
                load: lab.load.clone(),
            },
        },
        modules: lab.modules.clone(),
        brought: lab.brought.iter().map(PathBuf::from).collect(),
        rootfs: lab.rootfs.as_ref().map(PathBuf::from),
        seed: lab.seed,
        cpus: usize::try_from(lab.cpus).unwrap_or(1).clamp(1, 64),
        memory_mib: lab.memory_mib.clamp(256, 65536),
        virtual_limit: Duration::from_nanos(lab.virtual_limit_ns),
        host_limit: HOST_LIMIT,
        boot_limit: BOOT_LIMIT,
    };
    Ok(Cell {
        plan,
        column: record.column.clone(),
        load: record.load.clone(),
        variant: None,
        result: None,
        directory: String::new(),
    })
}

/// Whether both are the same, and what to say.
fn judge(record: &Before, made: &Made) -> (bool, String) {
    let (old, new) = (&record.laboratory.fingerprint, &made.laboratory.fingerprint);
    let others = old.differs_in(new).into_iter().map(report::dependency);
    let others: Vec<&str> = others.collect();
    let origin = if others.is_empty() {
        String::new()
    } else {
        format!(
            "; not the same machine: another {}",
            others.join(", another ")
        )
    };
    let difference = match (&record.run, &made.run) {
        (Some(old), Some(new)) => report::first_difference(old, new),
        _ => None,
    };
    if let Some(difference) = difference {
        return (false, format!("differs: {difference}{origin}"));
    }
    if old.result_sha256 == new.result_sha256 {
        let sum = new.result_sha256.get(..16).unwrap_or_default();
        return (true, format!("identical (result {sum}){origin}"));
    }
    (false, format!("differs: the guest's output{origin}"))
}
