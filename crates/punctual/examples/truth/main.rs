//! Checks bills against the truth: culprits that record when they were there are put in the way of a
//! probe, and the bills are compared with that.
//!
//!     truth [--only NAME,NAME] [--count N] [--length US] [--every N] [--keep DIR] [--rtla FILE]
//!           [--in pid-namespace] [--host KERNEL]
//!
//! Prints a line of JSON for each kind of culprit. `--keep` creates a directory and writes the
//! windows of wrong bills into it, or one if all are right: recorded data for tests. With `--rtla`
//! the culprits are put in the way of the kernel's own probe, and the output of rtla's auto-analysis
//! is printed. `--in pid-namespace` runs everything in a PID namespace of its own. `--host` boots
//! that kernel in an emulated machine of two CPUs and stops it as a host does.
#![allow(unsafe_code, reason = "an example calls the C library")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints what it found"
)]

#[cfg(feature = "trace")]
#[path = "../../tests/common/agent.rs"]
mod agent;
#[cfg(feature = "trace")]
mod culprit;
#[cfg(feature = "trace")]
mod device;
#[cfg(feature = "trace")]
mod group;
#[cfg(feature = "trace")]
mod host;
#[cfg(feature = "trace")]
mod kernel;
#[cfg(feature = "trace")]
mod namespace;
#[cfg(feature = "trace")]
mod probe;
#[cfg(feature = "trace")]
mod renamed;
#[cfg(feature = "trace")]
mod resumed;
#[cfg(feature = "trace")]
mod rtla;
#[cfg(feature = "trace")]
mod scene;
#[cfg(feature = "trace")]
mod score;
#[cfg(feature = "trace")]
mod stint;
#[cfg(feature = "trace")]
mod strike;

#[cfg(feature = "trace")]
fn main() -> std::process::ExitCode {
    played::main()
}

#[cfg(not(feature = "trace"))]
fn main() {
    eprintln!("this was built without tracing");
}

#[cfg(feature = "trace")]
mod played {
    use std::path::{Path, PathBuf};
    use std::process::ExitCode;
    use std::sync::Arc;

    use serde_json::json;

    use super::culprit::Culprit;
    use super::device::{Device, cpus};
    use super::scene::{Play, Seen, Stage};
    use super::score::score;

    struct Options {
        only: Option<Vec<String>>,
        play: Play,
        keep: Option<PathBuf>,
        rtla: Option<PathBuf>,
        namespace: bool,
        host: Option<String>,
    }

    /// The scenes: culprits that act at the same time, under one name.
    fn plays() -> Vec<(&'static str, Vec<Culprit>)> {
        let mut plays = vec![("quiet", Vec::new())];
        plays.extend(Culprit::ALL.map(|culprit| (culprit.name(), vec![culprit])));
        plays.push(("several", vec![Culprit::PreemptOff, Culprit::Hog]));
        plays.push((
            "several-more",
            vec![Culprit::Timers, Culprit::Deadline, Culprit::Interrupt],
        ));
        plays
    }

    fn parse() -> Result<Options, String> {
        let mut options = Options {
            only: None,
            play: Play {
                count: 200,
                every: 10,
                length_ns: 200_000,
            },
            keep: None,
            rtla: None,
            namespace: false,
            host: None,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(format!("{word} needs a value"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{word} {value}"));
            match word.as_str() {
                "--only" => options.only = Some(value.split(',').map(str::to_owned).collect()),
                "--count" => options.play.count = number()?,
                "--every" => options.play.every = number()?.max(4),
                "--length" => options.play.length_ns = number()? * 1000,
                "--rtla" => options.rtla = Some(value.into()),
                "--host" => options.host = Some(value),
                "--in" if value == "pid-namespace" => options.namespace = true,
                "--keep" => {
                    std::fs::create_dir_all(&value)
                        .map_err(|why| format!("{word} {value}: {why}"))?;
                    options.keep = Some(value.into());
                }
                _ => return Err(format!("unknown flag {word}")),
            }
        }
        Ok(options)
    }

    pub fn main() -> ExitCode {
        let mut words = std::env::args().skip(1);
        if words.next().as_deref() == Some(super::renamed::FLAG) {
            let said = words.next().and_then(|word| super::renamed::main(&word));
            println!("{}", said.unwrap_or_default());
            return ExitCode::SUCCESS;
        }
        // The kernel passes words of its own command line too.
        let mut words = std::env::args().skip(1);
        if words.any(|word| word == super::host::FLAG) {
            let record_ms = words.next().and_then(|word| word.parse().ok());
            super::host::guest(record_ms.unwrap_or(0));
            return ExitCode::FAILURE;
        }
        let options = match parse() {
            Ok(options) => options,
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::from(64);
            }
        };
        if let Some(kernel) = &options.host {
            match super::host::play(kernel, options.play.count) {
                Err(why) => println!("{}", json!({"culprit": "host", "skipped": why})),
                Ok((score, wrong)) => {
                    println!("{}", serde_json::to_string(&score).expect("plain data"));
                    for (number, window) in wrong.iter().enumerate() {
                        if let Some(folder) = &options.keep {
                            write(folder, &format!("host-{number}.json"), &json!(window));
                        }
                    }
                }
            }
            return ExitCode::SUCCESS;
        }
        if options.namespace {
            match super::namespace::enter() {
                Ok(None) => {}
                Ok(Some(code)) => return code,
                Err(why) => {
                    eprintln!("{why}");
                    return ExitCode::FAILURE;
                }
            }
        }
        // Read before any thread is pinned.
        let _ = cpus();
        let before = programs();
        let mut stage: Option<Stage> = None;
        for (name, culprits) in plays() {
            if options
                .only
                .as_ref()
                .is_some_and(|only| !only.iter().any(|word| word == name))
            {
                continue;
            }
            if let Some(file) = &options.rtla {
                if let [culprit] = culprits.as_slice() {
                    println!("{}", of_rtla(file, *culprit, options.play));
                }
                continue;
            }
            match perform(&mut stage, &culprits, options.play) {
                Err(why) => println!("{}", json!({"culprit": name, "skipped": why})),
                Ok(seen) if culprits.is_empty() => {
                    stage = None;
                    println!("{}", quiet(&seen, programs() - before));
                }
                Ok(seen) => {
                    for culprit in &culprits {
                        let name = if culprits.len() > 1 {
                            format!("{name}: {}", culprit.name())
                        } else {
                            name.to_owned()
                        };
                        let (score, kept) = score(*culprit, &name, &seen);
                        let line = serde_json::to_value(&score).expect("plain data");
                        let mut line = line.as_object().cloned().unwrap_or_default();
                        line.insert("events".to_owned(), seen.events.into());
                        line.insert("lost".to_owned(), seen.lost.into());
                        println!("{}", serde_json::Value::Object(line));
                        if let Some(folder) = &options.keep {
                            keep(folder, &name, &kept);
                        }
                    }
                }
            }
        }
        ExitCode::SUCCESS
    }

    /// rtla's output for a culprit, and the truth.
    fn of_rtla(file: &Path, culprit: Culprit, play: Play) -> serde_json::Value {
        match super::rtla::play(file, culprit, play) {
            Ok(played) => serde_json::to_value(&played).expect("plain data"),
            Err(why) => json!({"culprit": culprit.name(), "skipped": why}),
        }
    }

    /// On the existing stage, if the culprits can run on it.
    fn perform(
        stage: &mut Option<Stage>,
        culprits: &[Culprit],
        play: Play,
    ) -> Result<Seen, String> {
        let device = culprits.contains(&Culprit::Interrupt).then(Device::find);
        let device = device.transpose()?.map(Arc::new);
        let last = *cpus().last().ok_or("no CPU")?;
        let cpu = device.as_ref().map_or(last, |device| device.cpu);
        if stage.as_ref().is_none_or(|stage| stage.cpu() != cpu) {
            *stage = None;
            *stage = Some(Stage::new(cpu, play)?);
        }
        let stage = stage.as_mut().ok_or("no stage")?;
        stage.play(culprits, device, play.count)
    }

    /// All stages of undisturbed wake-ups should be known.
    fn quiet(seen: &Seen, left: usize) -> serde_json::Value {
        use punctual_record::explanation::StageTimes;
        let whole = seen.chains.iter().filter(|chain| {
            let times = StageTimes::between(chain);
            assert_eq!(times.total_ns(), chain.woken_ns - chain.due_ns);
            times.ns.iter().all(Option::is_some)
        });
        json!({
            "culprit": "quiet", "samples": seen.samples.len(), "whole": whole.count(),
            "events": seen.events, "lost": seen.lost, "left": left,
        })
    }

    /// What this process holds in the kernel: programs, maps, links.
    fn programs() -> usize {
        let folder = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
        let links = folder
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let is_bpf = |to: &PathBuf| to.to_string_lossy().starts_with("anon_inode:bpf");
        links.filter(is_bpf).count()
    }

    fn keep(folder: &Path, name: &str, kept: &[super::score::Kept<'_>]) {
        for (number, (window, truth)) in kept.iter().take(4).enumerate() {
            let name = name.replace(": ", "-");
            let text = json!({"window": window, "truth": truth.was, "gaps": truth.was.gaps.all()});
            write(folder, &format!("{name}-{number}.json"), &text);
        }
    }

    fn write(folder: &Path, name: &str, data: &serde_json::Value) {
        let path = folder.join(name);
        let text = serde_json::to_string_pretty(data).expect("plain data");
        if let Err(why) = std::fs::write(&path, text) {
            eprintln!("{}: {why}", path.display());
        }
    }
}
