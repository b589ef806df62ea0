//! `cost`: what does real time cost a command?

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use punctual_machine::Root;
use punctual_machine::survey::{self, cpus};
use punctual_record::cost::{Cost, CostOutcome, CostPart, CostProbe, CostTreatment, CostWork};
use punctual_record::document::directory_of;
use punctual_record::{Document, RunDirectory};
use punctual_rt::affinity;
use punctual_stats::cost::least_pairs;
use punctual_stats::format::duration;

use super::failure::Failure;
use super::flags::CostFlags;
use super::lab::status;
use super::line::StatusLine;
use super::measuring::{end, make_directory};
use super::{lab, out, plan};
use crate::conduct::cost::lab::{CostLab, cost_in_lab};
use crate::conduct::cost::{self, CostError, CostPlan, Half, preempt_mode, this_machine};
use crate::conduct::lab::{LabPlan, Limits};
use crate::conduct::{Observed, Observer, Signals};
use crate::launch::Program;

/// How often a line of progress is written where it can't be redrawn.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// CPU time of this machine until a guest's first process runs.
const BOOT: Duration = Duration::from_secs(60);

/// Makes all runs and shows what they cost.
///
/// # Errors
/// Wrong usage, a command that fails, or what could not be set up; then nothing is left changed.
pub fn run(flags: &CostFlags) -> Result<ExitCode, Failure> {
    if flags.lab {
        return in_lab(flags);
    }
    let (plan, half, directory) = match &flags.resume {
        Some(directory) => resumed(flags, directory)?,
        None => {
            let (plan, half) = begun(flags)?;
            (plan, half, make_directory(flags.output.as_deref(), "cost")?)
        }
    };
    let line = StatusLine::or_every(flags.quiet || flags.json, PLAIN_EVERY);
    let mut progress = CostScreen(line);
    let made = cost::cost(&plan, half, &directory, &mut progress);
    drop(progress);
    let made = made.map_err(|error| {
        let has_runs = Cost::read(directory.path()).is_ok_and(|cost| !cost.runs.is_empty());
        if !has_runs {
            // Nothing was measured: no directory is left behind.
            directory.remove_document::<Cost>();
            directory.discard_if_empty();
        }
        of_error(&error)
    })?;
    if flags.across_reboot {
        // Whatever the umask: --resume refuses a file that others can write.
        let file = directory.path().join(Cost::FILE);
        if let Err(error) = std::fs::set_permissions(&file, Permissions::from_mode(0o644)) {
            out::complain(&format!("{}: {error}", file.display()));
        }
    }
    Ok(end(&made, (flags.json, flags.quiet), &directory))
}

/// The same question of two kernels.
fn in_lab(flags: &CostFlags) -> Result<ExitCode, Failure> {
    let [without, with] = &flags.kernel[..] else {
        return Err(Failure::usage(
            "--kernel: expected two kernels separated by a comma, such as standard,rt",
        ));
    };
    if without == with {
        return Err(Failure::usage(format!(
            "--kernel {without},{with}: the same kernel twice: nothing would differ"
        )));
    }
    let treatment = CostTreatment {
        parts: vec![CostPart::Kernel {
            without: without.clone(),
            with: with.clone(),
        }],
    };
    let mut plan = planned(flags, vec![treatment], None, Vec::new())?;
    plan.work.warm_ups = 0;
    let name = &flags.command[0];
    let program = match &flags.machine.rootfs {
        Some(_) => None,
        None => {
            let found = Program::find(name).map_err(|refusal| Failure {
                line: refusal.to_string(),
                status: refusal.status(),
            })?;
            Some(found.path().to_owned())
        }
    };
    let asked = CostLab {
        without: without.clone(),
        with: with.clone(),
        guests: LabPlan {
            architecture: flags.machine.arch,
            columns: Vec::new(),
            seeds: 1,
            cpus: 1,
            memory_mib: flags.machine.mem,
            modules: flags.machine.module.clone(),
            brought: flags.machine.bring.clone(),
            rootfs: flags.machine.rootfs.clone(),
            limits: Limits {
                virtual_time: Duration::from_nanos(flags.limit),
                host: Duration::from_nanos(flags.limit),
                boot: BOOT,
            },
        },
        parameters: flags.machine.param.clone(),
        program,
        jobs: lab::host_cpus(),
    };
    let kernels = flags.kernel.iter().map(String::as_str);
    let bench = lab::bench(flags.machine.arch, kernels)?;
    let signals = Signals::listen().map_err(Failure::setup)?;
    let directory = make_directory(flags.output.as_deref(), "cost")?;
    let mut line = StatusLine::new(flags.quiet || flags.json);
    let made = cost_in_lab(
        &plan,
        &asked,
        &bench,
        &|| signals.end().is_some(),
        &mut |forecast, now| line.draw(&status::line(forecast, now)),
    );
    line.clear();
    let saved = made.and_then(|made| cost::save(&made, &directory).map(|()| made));
    let made = saved.map_err(|error| {
        directory.discard_if_empty();
        of_error(&error)
    })?;
    Ok(end(&made, (flags.json, flags.quiet), &directory))
}

fn of_error(error: &CostError) -> Failure {
    Failure {
        line: match error {
            CostError::NoResult { kernel, why } => {
                format!("{kernel}: {}", punctual_report::lab::no_result(why))
            }
            error => error.to_string(),
        },
        status: error.status(),
    }
}

fn begun(flags: &CostFlags) -> Result<(CostPlan, Option<Half>), Failure> {
    if flags.command.is_empty() {
        return Err(missing());
    }
    let cpus = affinity::get(0).map_err(Failure::setup)?;
    let treatments = match flags.across_reboot {
        true => vec![CostTreatment {
            parts: vec![CostPart::Reboot {}],
        }],
        false => treatments(flags, &cpus)?,
    };
    let probe = probe(flags, &treatments, &cpus)?;
    let plan = planned(flags, treatments, probe, cpus)?;
    Ok((plan, flags.across_reboot.then_some(Half::First)))
}

/// The plan of these treatments.
fn planned(
    flags: &CostFlags,
    treatments: Vec<CostTreatment>,
    probe: Option<CostProbe>,
    cpus: Vec<usize>,
) -> Result<CostPlan, Failure> {
    if flags.command.is_empty() {
        return Err(missing());
    }
    match least_pairs(treatments.len(), flags.confidence) {
        Some(least) if flags.pairs >= least as u64 => {}
        Some(least) => {
            return Err(Failure::usage(format!(
                "--pairs {}: expected {least} to 1000: fewer can't show anything of {} at a \
                 confidence of {}",
                flags.pairs,
                punctual_report::words::plural(treatments.len() as u64, "treatment", "treatments"),
                flags.confidence
            )));
        }
        None => {
            return Err(Failure::usage(format!(
                "--confidence {}: no number of pairs shows a cost that surely",
                flags.confidence
            )));
        }
    }
    let directory = std::env::current_dir()
        .map_err(|error| Failure::setup(format!("the working directory: {error}")))?;
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    Ok(CostPlan {
        command: std::env::args_os().map(|word| text(&word)).collect(),
        work: CostWork {
            program: flags.command.iter().map(text).collect(),
            directory: directory.to_string_lossy().into_owned(),
            prepare: flags.prepare.clone(),
            pairs: flags.pairs,
            warm_ups: flags.warm_ups,
            limit_ns: flags.limit,
            seed: flags.seed.unwrap_or_else(plan::seed_from_clock),
            confidence: flags.confidence,
            quantile: flags.quantile,
            accepts_failure: flags.ignore_failure,
        },
        program: flags.command.clone(),
        probe,
        treatments,
        cpus,
        output: output(flags)?,
        state: flags.state.state.clone(),
    })
}

fn missing() -> Failure {
    Failure::usage("missing COMMAND: give it after --")
}

fn output(flags: &CostFlags) -> Result<Option<File>, Failure> {
    let open = |path: &std::path::PathBuf| {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.map_err(|error| Failure::setup(format!("--print-to {}: {error}", path.display())))
    };
    flags.print_to.as_ref().map(open).transpose()
}

/// CPUs that a flag names.
fn chosen(flag: &str, list: &str) -> Result<Vec<usize>, Failure> {
    let root = Root::live();
    cpus::parse(list)
        .and_then(|parsed| {
            let place = cpus::Place::read(&root);
            cpus::select(&parsed, &survey::topology(&root), &place)
        })
        .map(|choice| choice.probed)
        .map_err(|error| Failure::usage(format!("invalid value '{list}' for {flag}: {error}")))
}

fn treatments(flags: &CostFlags, cpus: &[usize]) -> Result<Vec<CostTreatment>, Failure> {
    let mut parts = Vec::new();
    let isolated = match flags.isolate {
        Some(count) if count >= cpus.len() => {
            return Err(Failure::usage(format!(
                "--isolate {count}: this process may use {}: at least one is left to the command",
                punctual_report::words::plural(cpus.len() as u64, "CPU", "CPUs")
            )));
        }
        Some(count) => cpus[cpus.len() - count..].to_vec(),
        None => Vec::new(),
    };
    if let Some(utilisation) = flags.rt_load {
        let cpus = match &flags.rt_cpus {
            Some(list) => chosen("--rt-cpus", list)?,
            None if flags.together && !isolated.is_empty() => isolated.clone(),
            None => cpus.to_vec(),
        };
        parts.push(CostPart::RtLoad {
            utilisation,
            cpus,
            priority: flags.rt_priority,
            period_ns: flags.rt_period,
        });
    }
    if let Some(priority) = flags.priority {
        parts.push(CostPart::Priority { priority });
    }
    if flags.locked {
        parts.push(CostPart::Locked {});
    }
    if !isolated.is_empty() {
        parts.push(CostPart::Isolate { cpus: isolated });
    }
    if let Some(mode) = &flags.preempt {
        let before =
            preempt_mode().map_err(|why| Failure::setup(format!("--preempt {mode}: {why}")))?;
        if before == *mode {
            return Err(Failure::usage(format!(
                "--preempt {mode}: the kernel has this model already: nothing would differ"
            )));
        }
        parts.push(CostPart::Preempt {
            mode: mode.clone(),
            before,
        });
    }
    if parts.is_empty() {
        return Err(Failure::usage(
            "nothing to compare: give --rt-load, --priority, --locked, --isolate, --preempt or \
             --across-reboot",
        ));
    }
    Ok(match flags.together {
        true => vec![CostTreatment { parts }],
        false => parts
            .into_iter()
            .map(|part| CostTreatment { parts: vec![part] })
            .collect(),
    })
}

fn probe(
    flags: &CostFlags,
    treatments: &[CostTreatment],
    cpus: &[usize],
) -> Result<Option<CostProbe>, Failure> {
    if flags.no_probe {
        return Ok(None);
    }
    let cpu = match &flags.probe_cpu {
        Some(list) => match chosen("--probe-cpu", list)?[..] {
            [cpu] => cpu,
            _ => {
                return Err(Failure::usage(format!(
                    "invalid value '{list}' for --probe-cpu: expected one CPU"
                )));
            }
        },
        None => cpus.last().copied().unwrap_or(0),
    };
    let mut parts = treatments.iter().flat_map(|it| &it.parts);
    let above = parts.find_map(|part| match part {
        CostPart::RtLoad { priority, .. } if *priority >= flags.probe_priority => Some(*priority),
        _ => None,
    });
    if let Some(priority) = above {
        return Err(Failure::usage(format!(
            "--probe-priority {}: the real-time load at {priority} would delay the probe: give it a \
             lower --rt-priority",
            flags.probe_priority
        )));
    }
    Ok(Some(CostProbe {
        cpu,
        priority: flags.probe_priority,
        interval_ns: flags.interval,
    }))
}

/// The second half of a record whose first half was made before a reboot.
fn resumed(
    flags: &CostFlags,
    path: &Path,
) -> Result<(CostPlan, Option<Half>, RunDirectory), Failure> {
    refuse_of_others(path)?;
    let record = Cost::read(path).map_err(Failure::setup)?;
    let refuse = |why: String| Failure::setup(format!("--resume {}: {why}", path.display()));
    if record.outcome != CostOutcome::FirstHalf {
        return Err(refuse(
            "no runs before a reboot that wait for those after it: --across-reboot makes them"
                .to_owned(),
        ));
    }
    let now = this_machine();
    let differs = record
        .machines
        .first()
        .map(|before| before.differences(&now));
    if differs.is_none_or(|differs| differs.is_empty()) {
        return Err(refuse(
            "nothing differs: kernel, command line and settings are those of the first runs. Change \
             the configuration first"
                .to_owned(),
        ));
    }
    // Before the working directory changes: the path may be relative.
    let directory = RunDirectory::existing(directory_of(path)).map_err(Failure::setup)?;
    std::env::set_current_dir(&record.plan.directory).map_err(|error| {
        refuse(format!(
            "the directory of the first runs, {}: {error}",
            record.plan.directory
        ))
    })?;
    let plan = CostPlan {
        command: record.command.clone(),
        work: CostWork {
            limit_ns: record.plan.limit_ns,
            ..record.plan.clone()
        },
        program: record.plan.program.iter().map(OsString::from).collect(),
        treatments: record.treatments.clone(),
        probe: record.probe,
        cpus: affinity::get(0).map_err(Failure::setup)?,
        output: output(flags)?,
        state: flags.state.state.clone(),
    };
    Ok((plan, Some(Half::Second(Box::new(record))), directory))
}

/// What the record names is executed: nobody else may have written it.
fn refuse_of_others(path: &Path) -> Result<(), Failure> {
    let file = if path.is_dir() {
        path.join(Cost::FILE)
    } else {
        path.to_owned()
    };
    let found = std::fs::metadata(&file)
        .map_err(|error| Failure::setup(format!("--resume {}: {error}", file.display())))?;
    let ours = punctual_rt::sys::file::effective_user();
    let is_ours = found.uid() == ours || found.uid() == 0;
    if !is_ours || found.mode() & 0o022 != 0 {
        return Err(Failure::setup(format!(
            "--resume {}: other users may have written this file, and it names the command that is \
             run",
            file.display()
        )));
    }
    Ok(())
}

/// The display of a cost: one line.
struct CostScreen(StatusLine);

impl Observer for CostScreen {
    fn observe(&mut self, event: Observed<'_>) {
        let Observed::Ran(done, all, left) = event else {
            return;
        };
        let left = left.map_or_else(String::new, |left| {
            let ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
            format!(", {} left", duration(ns))
        });
        self.0.draw(&format!("run {done} of {all}{left}"));
    }
}
