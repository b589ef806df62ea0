//! The same culprits in the way of the kernel's own probe, and rtla's output for them: its
//! auto-analysis stops at the first late wake-up and analyses it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use punctual_rt::affinity;
use serde::Serialize;

use super::culprit::{Culprit, Injection, LEAD_NS, Scene, Truth, is_preempt_rt};
use super::device::{Device, cpus};
use super::probe::{Beat, PRIORITY};
use super::scene::{PERIOD_NS, Play};

const TRACING: &str = "/sys/kernel/tracing";
/// A wake-up that is later than this is analysed.
const ABOVE_US: u64 = 100;
/// How long it may wait for one, in seconds.
const PATIENCE: &str = "3s";
/// The number of wake-ups after which the phase of the others is known.
const KNOWN: usize = 20;
/// Failed tries that are allowed for each successful one.
const TRIES: u64 = 3;

/// rtla's results for one kind of culprit.
#[derive(Debug, Serialize)]
pub struct Played {
    pub culprit: String,
    pub cases: Vec<Case>,
    /// Times that it stopped before the culprit was there, or not at all.
    pub missed: u64,
}

/// A late wake-up with a culprit in it.
#[derive(Debug, Serialize)]
pub struct Case {
    /// The culprit's time within the wake-up.
    pub within_ns: u64,
    /// All of rtla's output.
    pub text: String,
}

/// Why a culprit can't delay a kernel thread.
pub fn cant(culprit: Culprit) -> Option<&'static str> {
    match culprit {
        Culprit::Fault
        | Culprit::Inversion
        | Culprit::Stop
        | Culprit::Traced
        | Culprit::Frozen
        | Culprit::Fair
        | Culprit::Throttled => Some("its probe is a thread of the kernel"),
        _ => None,
    }
}

/// Delays it with a culprit again and again.
pub fn play(rtla: &Path, culprit: Culprit, play: Play) -> Result<Played, String> {
    if let Some(why) = cant(culprit) {
        return Err(why.to_owned());
    }
    let mut played = Played {
        culprit: culprit.name().to_owned(),
        cases: Vec::new(),
        missed: 0,
    };
    let device = (culprit == Culprit::Interrupt).then(Device::find);
    let device = device.transpose()?.map(Arc::new);
    let last = *cpus().last().ok_or("no CPU")?;
    let cpu = device.as_ref().map_or(last, |device| device.cpu);
    for _ in 0..TRIES * play.count {
        if played.cases.len() as u64 == play.count {
            break;
        }
        match once(rtla, culprit, device.clone(), cpu, play)? {
            Some(case) => played.cases.push(case),
            None => played.missed += 1,
        }
    }
    Ok(played)
}

fn once(
    rtla: &Path,
    culprit: Culprit,
    device: Option<Arc<Device>>,
    cpu: usize,
    play: Play,
) -> Result<Option<Case>, String> {
    let mut running = Running::start(rtla, cpu)?;
    let watch = Watch::start()?;
    let Some(start_ns) = watch.phase(&mut running)? else {
        return Ok(None);
    };
    let other = cpus().iter().copied().find(|other| *other != cpu);
    let _ = affinity::set_current(&[other.unwrap_or(cpu)]);
    let scene = Scene {
        beat: Beat {
            cpu,
            start_ns,
            period_ns: PERIOD_NS,
            every: play.every,
            length_ns: play.length_ns + LEAD_NS,
        },
        probe: 0,
        group: None,
        lock: None,
        other,
        device,
        preempt_rt: is_preempt_rt(),
    };
    let injection = Injection::start(culprit, scene);
    let _ = affinity::set_current(cpus());
    let injection = injection?;
    let text = running.text();
    // It records when it was there only in the next cycle.
    std::thread::sleep(Duration::from_nanos(3 * play.every * PERIOD_NS));
    let truths = injection.end();
    let text = text?;
    let Some(hit) = watch.hit() else {
        return Ok(None);
    };
    let within = |truth: &Truth| {
        let begin = truth.was.begin_ns.max(hit.due_ns);
        truth.was.end_ns.min(hit.end_ns).saturating_sub(begin)
    };
    let within_ns = truths.iter().map(within).max().unwrap_or(0);
    // A shorter time of a culprit does not count.
    let there = within_ns >= ABOVE_US * 600 && text.contains("analyzing it");
    Ok(there.then_some(Case { within_ns, text }))
}

/// A running rtla; killed when dropped.
struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    fn start(rtla: &Path, cpu: usize) -> Result<Self, String> {
        let said = std::env::temp_dir().join(format!("truth-rtla-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", rtla.display());
        let out = fs::File::create(&said).map_err(failed)?;
        let mut command = Command::new(rtla);
        command
            .args(["timerlat", "top", "-q", "-k", "-d", PATIENCE])
            .args(["-c", &cpu.to_string()])
            .args(["-p", &(PERIOD_NS / 1_000).to_string()])
            .args(["-P", &format!("f:{PRIORITY}")])
            // If it stopped in the timer's interrupt (-a), it would have the least information.
            .args(["-T", &ABOVE_US.to_string()])
            .stdin(Stdio::null())
            .stderr(out.try_clone().map_err(failed)?)
            .stdout(out);
        let child = command.spawn().map_err(failed)?;
        let mut running = Self { child, said };
        while !running.traces() {
            if running.ended()? {
                return Err(format!("rtla ended: {}", running.words()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Its setup takes longer than that.
        std::thread::sleep(Duration::from_millis(100));
        Ok(running)
    }

    fn traces(&self) -> bool {
        let instances = fs::read_dir(format!("{TRACING}/instances"));
        instances.into_iter().flatten().flatten().any(|instance| {
            let tracer = fs::read_to_string(instance.path().join("current_tracer"));
            tracer.is_ok_and(|tracer| tracer.trim() == "timerlat")
        })
    }

    fn ended(&mut self) -> Result<bool, String> {
        let status = self.child.try_wait().map_err(|error| error.to_string())?;
        Ok(status.is_some())
    }

    fn words(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// All of its output until its end.
    fn text(&mut self) -> Result<String, String> {
        self.child.wait().map_err(|error| error.to_string())?;
        Ok(self.words())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.said);
    }
}

/// The kernel's report of the same wake-ups, on our clock.
struct Watch(PathBuf);

/// The last wake-up, at which rtla stopped.
struct Hit {
    due_ns: u64,
    end_ns: u64,
}

impl Watch {
    fn start() -> Result<Self, String> {
        let folder = PathBuf::from(format!("{TRACING}/instances/truth-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(failed)?;
        let watch = Self(folder.clone());
        for (file, value) in [("trace_clock", "mono"), ("current_tracer", "timerlat")] {
            fs::write(folder.join(file), value).map_err(failed)?;
        }
        Ok(watch)
    }

    /// Each line: whether it is the thread's, when it was written, the latency.
    fn lines(&self) -> Vec<(bool, u64, u64)> {
        let text = fs::read_to_string(self.0.join("trace")).unwrap_or_default();
        text.lines().filter_map(line).collect()
    }

    /// When one wake-up was due; `None` if it was already late.
    fn phase(&self, running: &mut Running) -> Result<Option<u64>, String> {
        loop {
            let lines = self.lines();
            let irqs = lines.iter().filter(|(thread, ..)| !thread);
            if irqs.clone().count() >= KNOWN {
                // The one with the least latency is the most precise.
                let best = irqs.min_by_key(|(_, _, latency_ns)| *latency_ns);
                return Ok(best.map(|(_, at_ns, latency_ns)| at_ns - latency_ns));
            }
            if running.ended()? {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn hit(&self) -> Option<Hit> {
        let lines = self.lines();
        let (_, at_ns, latency_ns) = *lines.iter().rfind(|(thread, ..)| !thread)?;
        let due_ns = at_ns - latency_ns;
        let (thread, _, last_ns) = *lines.last()?;
        let length_ns = if thread { last_ns } else { latency_ns };
        Some(Hit {
            due_ns,
            end_ns: due_ns + length_ns,
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("current_tracer"), "nop");
        let _ = fs::remove_dir(&self.0);
    }
}

/// `<idle>-0 [000] d.h1. 54.029328: #2 context irq timer_latency 932 ns`, to a µs.
fn line(text: &str) -> Option<(bool, u64, u64)> {
    let (before, after) = text.split_once(": #")?;
    let (seconds, micros) = before.rsplit(' ').next()?.split_once('.')?;
    let at_us = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let words: Vec<&str> = after.split_whitespace().collect();
    match words.as_slice() {
        [_, "context", kind, "timer_latency", ns, "ns"] => {
            Some((*kind == "thread", at_us * 1_000, ns.parse().ok()?))
        }
        _ => None,
    }
}
