//! `load`: runs the loads without a measurement.

use std::process::ExitCode;
use std::time::Duration;

use super::failure::Failure;
use super::flags::LoadFlags;
use super::out;
use crate::conduct::Signals;
use punctual_lab::job::load_seed;
use punctual_load::{LoadReport, LoadSettings, LoadSpec};
use punctual_machine::Root;
use punctual_machine::survey::cpus::{self, Place};
use punctual_machine::survey::topology;
use punctual_report::{facts, words};

/// Runs the loads and prints what they did.
///
/// # Errors
/// Wrong usage, or loads that cannot be started.
pub fn run(flags: &LoadFlags) -> Result<ExitCode, Failure> {
    let classic = !flags.classic.is_empty();
    let spec = if classic {
        classic_spec(flags)?
    } else {
        flags.load.clone()
    };
    if spec == LoadSpec::None {
        return Err(Failure::usage(
            "invalid value 'none' for LOAD: nothing would run",
        ));
    }
    let settings = LoadSettings {
        class: flags.load_class,
        cpus: Some(cpus_of(flags.affinity.as_deref())?),
        seed: load_seed(),
        ..LoadSettings::default()
    };
    let signals = Signals::listen().map_err(Failure::setup)?;
    let duration = flags.duration.map(Duration::from_nanos);
    let reports =
        punctual_load::standalone(&spec, &settings, duration, |_| signals.end().is_none())
            .map_err(Failure::setup)?;
    if flags.json {
        let text = serde_json::to_string_pretty(&reports).map_err(Failure::setup)?;
        out::print(&(text + "\n"));
    } else if classic {
        reports
            .iter()
            .for_each(|report| out::print(&(punctual_load::classic_line(report) + "\n")));
    } else {
        out::print(&table(&reports));
    }
    let failed = reports.iter().find_map(|report| {
        report
            .failed
            .as_ref()
            .map(|failure| format!("load {}: {}", report.name, facts::load_failure(failure)))
    });
    failed.map_or(Ok(ExitCode::SUCCESS), |line| Err(Failure::setup(line)))
}

fn classic_spec(flags: &LoadFlags) -> Result<LoadSpec, Failure> {
    match &flags.load {
        LoadSpec::List(items) if items.len() == 1 && items[0].name == "hackbench" => {
            let item = punctual_load::classic_item(&flags.classic)
                .map_err(|error| Failure::usage(error.to_string()))?;
            Ok(LoadSpec::List(vec![item]))
        }
        _ => Err(Failure::usage(
            "arguments after -- are for hackbench only, as in `punctual load hackbench -- -g 10`",
        )),
    }
}

/// The CPUs that were named, or those that other programs use.
fn cpus_of(list: Option<&str>) -> Result<Vec<usize>, Failure> {
    let root = Root::live();
    let (topology, place) = (topology(&root), Place::read(&root));
    let Some(list) = list else {
        return Ok(cpus::for_load(&topology, &place));
    };
    cpus::parse(list)
        .and_then(|parsed| cpus::select(&parsed, &topology, &place))
        .map(|choice| choice.probed)
        .map_err(|error| Failure::usage(format!("invalid value '{list}' for --affinity: {error}")))
}

fn table(reports: &[LoadReport]) -> String {
    let mut text = String::new();
    for report in reports {
        text.push_str(&format!(
            "{:<12} {:>20}   {:>14} {} in {:.1} s, {} tasks\n",
            report.name,
            words::rate(report.rate, &report.unit),
            punctual_stats::format::count(report.work),
            report.unit,
            report.seconds,
            report.processes,
        ));
    }
    text
}
