//! A host that stops a whole virtual machine: a signal stops QEMU, with all its CPUs; the
//! probe, its recording and its bills are in the guest.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use punctual_lab::Qemu;
use punctual_lab::initramfs::Initramfs;
use punctual_lab::kernel::{self, Cache};
use punctual_record::explanation::{BillRow, Cause, RowNote};
use punctual_rt::clock;
use punctual_rt::sched::Policy;
use punctual_rt::sys::time;
use punctual_trace::attribute::{self, event::Window};
use serde::{Deserialize, Serialize};

use super::device::cpus;
use super::probe::PRIORITY;
use super::resumed::{Return, Threads};
use super::scene::{PERIOD_NS, Play, Stage};
use super::score::Score;
use super::strike::be;
use punctual_record::laboratory::Architecture;

/// The flag with which this program is the first process of the guest; the ms to record
/// follows.
pub const FLAG: &str = "--in-guest";
/// The CPUs of the emulated machine.
const CPUS: usize = 2;
/// How long each stop is: longer than this machine's own host usually takes a CPU away.
const STOP_NS: u64 = 30_000_000;
/// The time between two stops.
const EACH_NS: u64 = 100_000_000;
/// The greatest error of comparing the clocks of host and guest by lines on a console.
const APART_NS: u64 = 2_000_000;
/// For an emulated boot on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A late wake-up in the guest.
#[derive(Debug, Serialize, Deserialize)]
struct Late {
    due_ns: u64,
    woken_ns: u64,
    /// The sum of all rows.
    rows_ns: u64,
    residue_ns: u64,
    is_explained: bool,
    /// The host's share of it, with all CPUs stopped.
    host_ns: u64,
    cpus: Vec<u32>,
    /// The share that is likely the host's, but not certain: all CPUs were in the kernel.
    likely_ns: u64,
    /// The longest row's text.
    most: String,
    /// All events, if most of it is not the host's.
    window: Option<Window>,
}

/// A stop, on the host's clock: the certain and the possible start and end.
struct Stop {
    first_ns: u64,
    begin_ns: u64,
    end_ns: u64,
    last_ns: u64,
    /// How the machine's CPUs resumed.
    resumed: Return,
}

/// Runs the scene with this kernel and this many stops.
pub fn play(kernel: &str, count: u64) -> Result<(Score, Vec<Window>), String> {
    let mut guest = Guest::boot(kernel, count * EACH_NS / 1_000_000)?;
    guest.wait_for("playing")?;
    let threads = Threads::of_qemu(guest.process.id(), CPUS)?;
    // The clock is read when a stop ends, whatever else this machine does.
    be(cpus(), Policy::Fifo(99))?;
    let stops: Result<Vec<Stop>, String> = (0..count)
        .map(|_| {
            let stop = guest.stop(&threads)?;
            let _ = time::sleep_until(stop.first_ns + EACH_NS - 5_000_000);
            Ok(stop)
        })
        .collect();
    be(cpus(), Policy::Other)?;
    let stops = stops?;
    guest.wait_for("end")?;
    if guest.lates.is_empty() {
        return Err("the guest saw no late wake-up".to_owned());
    }
    let mut score = Score {
        culprit: "host".to_owned(),
        ..Score::default()
    };
    let mut wrong = Vec::new();
    for stop in &stops {
        if !stop.resumed.is_together() {
            score.apart += 1;
            continue;
        }
        let apart_ns = guest.apart_ns(stop.end_ns);
        let within = |late: &Late| {
            let from = late
                .due_ns
                .max(stop.begin_ns.saturating_add_signed(-apart_ns));
            let to = late
                .woken_ns
                .min(stop.end_ns.saturating_add_signed(-apart_ns));
            to.saturating_sub(from)
        };
        let Some(late) = guest.lates.iter().max_by_key(|late| within(late)) else {
            continue;
        };
        let least_ns = within(late);
        // Stopped before the probe had armed its timer, or after its last wake-up.
        if least_ns < STOP_NS / 2 {
            score.blind += 1;
            continue;
        }
        if late.likely_ns * 10 >= least_ns * 9 {
            score.likely += 1;
            continue;
        }
        let most_ns = stop.last_ns - stop.first_ns;
        let off_ns = late.host_ns as i64 - late.host_ns.clamp(least_ns, most_ns) as i64;
        let named = late.host_ns * 10 >= least_ns * 9 && late.cpus == [0, 1];
        score.count(off_ns, named);
        score.timed += usize::from(off_ns.unsigned_abs() <= APART_NS);
        score.summed += usize::from(late.rows_ns == late.woken_ns - late.due_ns);
        score.explained += usize::from(late.is_explained);
        score.total_ns += late.rows_ns;
        score.residue_ns += late.residue_ns;
        if !named {
            let instead = format!("of {least_ns} ns: {}", late.most);
            score.instead.push(instead);
            wrong.extend(late.window.clone());
        }
    }
    score.instead.truncate(3);
    Ok((score, wrong))
}

/// The virtual machine; killed when dropped.
struct Guest {
    process: Child,
    folder: PathBuf,
    lines: Receiver<(u64, String)>,
    /// The host's clock minus the guest's, with the time when the host read it.
    clocks: Vec<(u64, i64)>,
    lates: Vec<Late>,
    said: String,
}

impl Guest {
    fn boot(asked: &str, record_ms: u64) -> Result<Self, String> {
        let cache = Cache::for_user().map_err(|why| why.to_string())?;
        let kernel = kernel::find(asked, Architecture::Amd64, &cache, &mut |_| {})
            .map_err(|why| why.to_string())?;
        let qemu = Qemu::find(Architecture::Amd64).map_err(|why| why.to_string())?;
        let folder = std::env::temp_dir().join(format!("truth-host-{}", std::process::id()));
        let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let own = std::env::current_exe()
            .and_then(std::fs::read)
            .map_err(failed)?;
        let mut archive = Initramfs::new();
        archive.file("init", own, true);
        for place in ["proc", "sys", "dev", "tmp"] {
            archive.folder(place);
        }
        archive.device("dev/console", 5, 1);
        let files = folder.join("files.cpio");
        std::fs::write(&files, archive.bytes()).map_err(failed)?;
        let mut command = Command::new(&qemu.path);
        command
            .args(["-accel", "tcg,thread=multi", "-m", "1024"])
            .args(["-smp", &CPUS.to_string()])
            // So that the threads of its CPUs have names.
            .args(["-name", "truth,debug-threads=on"])
            .args([
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
                "-vga",
                "none",
            ])
            .args([
                "-nic",
                "none",
                "-monitor",
                "none",
                "-no-reboot",
                "-serial",
                "stdio",
            ])
            .arg("-kernel")
            .arg(&kernel.image)
            .arg("-initrd")
            .arg(&files)
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet panic=-1 nokaslr -- {FLAG} {record_ms}"
            ));
        let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = pipes.stderr(Stdio::null()).spawn().map_err(failed)?;
        let output = process.stdout.take().ok_or("no output")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = send.send((clock::now_ns(), line.trim().to_owned()));
            }
        });
        Ok(Self {
            process,
            folder,
            lines,
            clocks: Vec::new(),
            lates: Vec::new(),
            said: String::new(),
        })
    }

    /// Reads its output up to this word.
    fn wait_for(&mut self, word: &str) -> Result<(), String> {
        loop {
            let Ok((at_ns, line)) = self.lines.recv_timeout(PATIENCE) else {
                return Err(format!("the guest does not say \"{word}\": {}", self.said));
            };
            if line == word {
                return Ok(());
            }
            if let Some(guests_ns) = line.strip_prefix("clock ") {
                let guests_ns: i64 = guests_ns.parse().unwrap_or(i64::MAX);
                self.clocks.push((at_ns, at_ns as i64 - guests_ns));
            } else if let Ok(late) = serde_json::from_str(&line) {
                self.lates.push(late);
            } else if !line.is_empty() {
                self.said = line;
            }
        }
    }

    /// Stops it for a while.
    fn stop(&self, threads: &Threads) -> Result<Stop, String> {
        let pid = self.process.id().cast_signed();
        let signal = |signal| {
            // SAFETY: kill takes two integers; our child has not been reaped.
            unsafe { libc::kill(pid, signal) };
        };
        let first_ns = clock::now_ns();
        signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: waitpid writes to `status`, which outlives the call.
        unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) };
        let begin_ns = clock::now_ns();
        let _ = time::sleep_for(STOP_NS);
        let end_ns = clock::now_ns();
        let resumed = threads.go_on(|| signal(libc::SIGCONT))?;
        Ok(Stop {
            first_ns,
            begin_ns,
            end_ns,
            // Its CPUs resume one after the other.
            last_ns: end_ns + APART_NS,
            resumed,
        })
    }

    /// How far the host's clock is ahead of the guest's around an instant: a line may be late, but
    /// never early.
    fn apart_ns(&self, at_ns: u64) -> i64 {
        let near = |(read_ns, _): &&(u64, i64)| read_ns.abs_diff(at_ns) < 1_000_000_000;
        let near = self.clocks.iter().filter(near).map(|(_, apart)| *apart);
        near.min().unwrap_or(0)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The guest's first process.
pub fn guest(record_ms: u64) {
    for (kind, place) in [
        (c"proc", c"/proc"),
        (c"sysfs", c"/sys"),
        (c"devtmpfs", c"/dev"),
        (c"tracefs", c"/sys/kernel/tracing"),
    ] {
        let (none, kind, place) = (std::ptr::null(), kind.as_ptr(), place.as_ptr());
        // SAFETY: mount only reads the C string literals.
        unsafe { libc::mount(kind, place, kind, 0, none) };
    }
    let said = recorded(record_ms);
    match said {
        Ok(lines) => lines.iter().for_each(|line| println!("{line}")),
        Err(why) => println!("{why}"),
    }
    println!("end");
    // SAFETY: reboot takes no pointer; the guest ends here.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_RESTART) };
}

fn recorded(record_ms: u64) -> Result<Vec<String>, String> {
    let every = 4;
    let play = Play {
        count: record_ms * 1_000_000 / PERIOD_NS / every,
        every,
        length_ns: 0,
    };
    let all = cpus();
    let cpu = *all.last().ok_or("no CPU")?;
    let mut stage = Stage::over(all, cpu, play)?;
    stage.only_above(STOP_NS / 4);
    std::thread::spawn(|| {
        loop {
            println!("clock {}", clock::now_ns());
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    // As with a probe on each CPU: an idle CPU that waits for nothing does not show that it stood
    // still.
    for cpu in all.iter().copied().filter(|other| *other != cpu) {
        std::thread::spawn(move || {
            be(&[cpu], Policy::Fifo(PRIORITY)).expect("the first process may");
            loop {
                let _ = time::sleep_for(PERIOD_NS);
            }
        });
    }
    // It has started its work by then.
    std::thread::sleep(Duration::from_millis(500));
    println!("playing");
    let seen = stage.play(&[], None, play.count)?;
    let line = |window: &Window| {
        let bill = attribute::plain_bill(window);
        let host = bill.rows.iter().filter_map(|row| match &row.cause {
            Cause::Host { cpus } => Some((row.ns, cpus.clone())),
            _ => None,
        });
        let host: Vec<(u64, Vec<u32>)> = host.collect();
        let is_likely = |row: &&BillRow| {
            let mut notes = row.notes.iter();
            notes.any(|note| matches!(note, RowNote::LikelyHost { .. }))
        };
        let likely = bill.rows.iter().filter(is_likely);
        let most = bill.rows.iter().max_by_key(|row| row.ns);
        let host_ns = host.iter().map(|(ns, _)| ns).sum();
        let latency_ns = window.woken_ns - window.due_ns;
        let late = Late {
            due_ns: window.due_ns,
            woken_ns: window.woken_ns,
            rows_ns: bill.rows.iter().map(|row| row.ns).sum(),
            residue_ns: bill.residue_ns(),
            is_explained: bill.is_explained(),
            host_ns,
            window: (host_ns * 10 < latency_ns * 9).then(|| window.clone()),
            likely_ns: likely.map(|row| row.ns).sum(),
            cpus: host
                .first()
                .map(|(_, cpus)| cpus.clone())
                .unwrap_or_default(),
            most: most.map_or_else(String::new, |row| {
                format!("{:?} {:?} {}", row.stage, row.cause, row.ns)
            }),
        };
        serde_json::to_string(&late).map_err(|why| why.to_string())
    };
    seen.windows.iter().map(line).collect()
}
