//! What became of a stopped machine's threads once they were let go on: how long each waited for a CPU
//! of this machine, by the kernel's account of them and not by what the guest saw.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_rt::clock;
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::time;

/// Between two looks.
const EACH_NS: u64 = 250_000;
/// For as long after SIGCONT a thread's waiting delays what its CPU does first.
const FIRST_NS: u64 = 4_000_000;
/// A thread that waits then is watched until it ran, at most this long.
const PATIENCE_NS: u64 = 20_000_000;
/// Below the thread that looks; the timers' thread runs shortly, and before the processors, which may be
/// as many as this machine's.
const TIMERS_PRIORITY: u32 = 98;
const CPU_PRIORITY: u32 = 97;
/// A CPU that waited longer did not come back with the other one.
pub const APART_NS: u64 = 1_000_000;

/// What keeps a machine's CPUs from going on: its processors' threads, and the thread that serves their
/// timers.
pub struct Threads {
    each: Vec<Thread>,
}

struct Thread {
    tid: i32,
    place: PathBuf,
    /// While it goes on: nothing else that runs on this machine comes before it.
    priority: u32,
}

/// How they went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Return {
    /// What the thread that waited longest waited for a CPU; as long as it was looked at, if it never ran.
    pub waited_ns: u64,
    /// What this machine's own host took in that time: as counted, or as a look was late.
    pub stolen_ns: u64,
}

impl Return {
    /// Whether the machine's CPUs were back together.
    pub fn is_together(self) -> bool {
        self.waited_ns <= APART_NS && self.stolen_ns <= APART_NS
    }
}

/// The kernel's account of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Account {
    ran_ns: u64,
    waited_ns: u64,
    /// How often it came to a CPU.
    times: u64,
    /// Whether it sleeps: it waits for no CPU, and all its waiting is counted.
    sleeps: bool,
}

impl Threads {
    /// Those of QEMU, whose processors' threads are named "CPU 0/TCG".
    pub fn of_qemu(pid: u32, cpus: usize) -> Result<Self, String> {
        let folder = format!("/proc/{pid}/task");
        let entries = fs::read_dir(&folder).map_err(|why| format!("{folder}: {why}"))?;
        let (mut each, mut found) = (Vec::new(), 0);
        for place in entries.flatten().map(|entry| entry.path()) {
            let name = fs::read_to_string(place.join("comm")).unwrap_or_default();
            let number = place
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok());
            let Some(tid) = number else { continue };
            let is_cpu = name.starts_with("CPU ");
            found += usize::from(is_cpu);
            if is_cpu || u32::try_from(tid) == Ok(pid) {
                let priority = if is_cpu {
                    CPU_PRIORITY
                } else {
                    TIMERS_PRIORITY
                };
                each.push(Thread {
                    tid,
                    place,
                    priority,
                });
            }
        }
        if found != cpus {
            return Err(format!(
                "{folder}: {found} threads named CPU, expected {cpus}"
            ));
        }
        let threads = Self { each };
        threads.accounts()?;
        Ok(threads)
    }

    fn accounts(&self) -> Result<Vec<Account>, String> {
        self.each.iter().map(|it| account(&it.place)).collect()
    }

    fn be(&self, policy: impl Fn(&Thread) -> Policy) -> Result<(), String> {
        let set = |it: &Thread| {
            sched::set(it.tid, policy(it)).map_err(|why| format!("policy of {}: {why}", it.tid))
        };
        self.each.iter().try_for_each(set)
    }

    /// Lets them go on, before all else on this machine, and looks at them until what they waited for a
    /// CPU at first is known.
    pub fn go_on(&self, let_go: impl FnOnce()) -> Result<Return, String> {
        self.be(|it| Policy::Fifo(it.priority))?;
        let resumed = self.watched(let_go);
        self.be(|_| Policy::Other)?;
        resumed
    }

    fn watched(&self, let_go: impl FnOnce()) -> Result<Return, String> {
        let (before, stolen) = (self.accounts()?, stolen_ns());
        let_go();
        let begun_ns = clock::now_ns();
        let (mut last_ns, mut late_ns) = (begun_ns, 0_u64);
        let mut first: Option<Vec<Account>> = None;
        loop {
            let _ = time::sleep_for(EACH_NS);
            let accounts = self.accounts()?;
            let now_ns = clock::now_ns();
            late_ns = late_ns.max((now_ns - last_ns).saturating_sub(EACH_NS));
            last_ns = now_ns;
            let since_ns = now_ns - begun_ns;
            if since_ns < FIRST_NS {
                continue;
            }
            let first = first.get_or_insert_with(|| accounts.clone());
            let each = before.iter().zip(first.iter()).zip(&accounts);
            let waited: Option<Vec<u64>> = each
                .map(|((before, first), now)| waited_ns(*before, *first, *now))
                .collect();
            if waited.is_none() && since_ns < PATIENCE_NS {
                continue;
            }
            let most_ns = waited.map_or(Some(since_ns), |waited| waited.into_iter().max());
            return Ok(Return {
                waited_ns: most_ns.unwrap_or(since_ns),
                stolen_ns: late_ns.max(stolen_ns().saturating_sub(stolen)),
            });
        }
    }
}

/// What a thread waited for a CPU from before to the first look; nothing while it may wait still. The
/// kernel counts a wait when it ends.
fn waited_ns(before: Account, first: Account, now: Account) -> Option<u64> {
    if first.sleeps {
        // One that slept through it all was not stopped on its way.
        return Some(first.waited_ns - before.waited_ns);
    }
    if now.times > first.times {
        return Some(now.waited_ns - before.waited_ns);
    }
    // On the CPU all the time, or it has gone to sleep from there.
    let ran = first.times > before.times && (now.ran_ns > first.ran_ns || now.sleeps);
    ran.then(|| first.waited_ns - before.waited_ns)
}

fn account(place: &Path) -> Result<Account, String> {
    let text = |name: &str| {
        let path = place.join(name);
        fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
    };
    // Its state first: what is counted is then at least what was when it slept.
    let (stat, counted) = (text("stat")?, text("schedstat")?);
    parsed(&stat, &counted).ok_or_else(|| format!("{}: no account of it", place.display()))
}

fn parsed(stat: &str, counted: &str) -> Option<Account> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut numbers = counted.split_whitespace().map(|it| it.parse::<u64>().ok());
    Some(Account {
        ran_ns: numbers.next()??,
        waited_ns: numbers.next()??,
        times: numbers.next()??,
        sleeps: matches!(fields.trim_start().chars().next()?, 'S' | 'D' | 'I'),
    })
}

/// What this machine's own host took, of all CPUs; 0 where it counts nothing.
fn stolen_ns() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text
        .lines()
        .next()
        .and_then(|line| line.split_whitespace().nth(8));
    ticks
        .and_then(|ticks| ticks.parse::<u64>().ok())
        .unwrap_or(0)
        * 10_000_000
}
