//! The kernel's side: loaded, attached, and read.

use std::fs;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use aya::maps::{HashMap, Map, MapData};
use aya::programs::{BtfTracePoint, Program, RawTracePoint, SchedClassifier};
use aya::{Btf, Ebpf, EbpfLoader};

use super::Options;
use super::layout;
use super::shared::{Shared, run_once};
use super::slot::{Slot, WORDS};
use super::unavailable::{BTF, Unavailable};

/// The compiled program.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/recorder.bpf.o"));

/// Without these nothing can be explained.
const NEEDED: &[&str] = &[
    "local_timer_entry",
    "local_timer_exit",
    "hrtimer_start",
    "hrtimer_expire_entry",
    "sched_waking",
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "sched_migrate_task",
];
/// Kernels may lack these.
const WELCOME: &[&str] = &[
    "reschedule_entry",
    "reschedule_exit",
    "call_function_entry",
    "call_function_exit",
    "call_function_single_entry",
    "call_function_single_exit",
    "irq_work_entry",
    "irq_work_exit",
    "x86_platform_ipi_entry",
    "x86_platform_ipi_exit",
    "thermal_apic_entry",
    "thermal_apic_exit",
    "threshold_apic_entry",
    "threshold_apic_exit",
    "nmi_handler",
    "cpu_idle",
    "workqueue_execute_start",
    "contention_begin",
    "contention_end",
    "page_fault_user",
];
/// These take arguments that a typed program may not have.
const WELCOME_RAW: &[&str] = &["csd_function_entry", "csd_function_exit"];

/// Words of a lane, and where its parts are: see `struct lane`.
const LANE_WORDS: usize = 8;
const NEXT: usize = 0;
const FIRST: usize = 1;
const MASK: usize = 2;
const TARGET: usize = 6;
/// Slots of the lane for what happens elsewhere.
const OTHERS: usize = 4096;
/// Stacks of each CPU, and the addresses in one.
const STACKS: usize = 16;
const FRAMES: usize = 32;

/// The recorder at work. Dropped, it is gone from the kernel.
pub struct Recorder {
    // Holds programs, links and maps by descriptors: however this process ends, they end.
    _programs: Ebpf,
    lanes: Shared,
    slots: Shared,
    stacks: Shared,
    /// The lanes that are recorded: their number, their first slot, and how many.
    places: Vec<Place>,
    missing: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    lane: usize,
    first: usize,
    size: usize,
    read: u64,
}

impl Recorder {
    /// Loads and attaches it.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn start(options: &Options) -> Result<Self, Unavailable> {
        let btf = Btf::from_sys_fs().map_err(|error| refused("reading its types", &error))?;
        let layout = layout::parse(&fs::read(BTF).unwrap_or_default());
        let cpus = possible_cpus();
        let size = options.ring_events.next_power_of_two().max(1024);
        let mut places = Vec::new();
        let mut first = 0;
        for &cpu in options.cpus.iter().filter(|cpu| **cpu < cpus) {
            places.push(Place {
                lane: cpu as usize,
                first,
                size,
                read: 0,
            });
            first += size;
        }
        places.push(Place {
            lane: cpus as usize,
            first,
            size: OTHERS,
            read: 0,
        });
        let total = first + OTHERS;
        let one_each = options.targets.iter().all(|(_, cpu)| {
            options
                .targets
                .iter()
                .filter(|(_, other)| other == cpu)
                .count()
                == 1
        });
        // An absolute, pinned timer can be armed from 6.7 on.
        let sentinel_on = u32::from(options.threshold_ns > 0 && kernel_is_at_least(6, 7));
        let several = u32::from(!one_each);
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .override_global("cpus", &cpus, true)
            .override_global("several", &several, true)
            .override_global("threshold_ns", &options.threshold_ns, true)
            .override_global("sentinel_on", &sentinel_on, true)
            .override_global("runqueues_at", &layout.runqueues, true)
            .override_global("irq_regs_at", &layout.irq_regs, true)
            .override_global("preempt_count_at", &layout.preempt_count, true)
            .override_global("steal_at", &layout.steal_time, true)
            .map_max_entries("lanes", cpus + 1)
            .map_max_entries("sentinels", cpus)
            .map_max_entries("stacks", cpus * STACKS as u32)
            .map_max_entries("slots", u32::try_from(total).unwrap_or(u32::MAX));
        let mut programs = loader
            .load(OBJECT)
            .map_err(|error| refused("taking the recorder's maps", &error))?;
        let lanes = shared(&programs, "lanes", (cpus as usize + 1) * LANE_WORDS)?;
        let slots = shared(&programs, "slots", total * WORDS)?;
        let stacks = shared(&programs, "stacks", cpus as usize * STACKS * FRAMES)?;
        for place in &places {
            let lane = &lanes.words()[place.lane * LANE_WORDS..][..LANE_WORDS];
            lane[FIRST].store(place.first as u64, Ordering::Relaxed);
            lane[MASK].store(place.size as u64 - 1, Ordering::Relaxed);
            let target = options
                .targets
                .iter()
                .find(|(_, cpu)| *cpu as usize == place.lane);
            lane[TARGET].store(
                target.map_or(0, |(tid, _)| u64::from(*tid)),
                Ordering::Relaxed,
            );
        }
        name_targets(&mut programs, options)?;
        let mut recorder = Self {
            _programs: programs,
            lanes,
            slots,
            stacks,
            places,
            missing: Vec::new(),
        };
        recorder.attach(&btf, sentinel_on != 0, options.threshold_ns)?;
        Ok(recorder)
    }

    fn attach(&mut self, btf: &Btf, sentinel: bool, threshold_ns: u64) -> Result<(), Unavailable> {
        let programs = &mut self._programs;
        if !sentinel && threshold_ns > 0 {
            let why = "stacks while a CPU is blocked (it takes a kernel of 6.7 or later)";
            self.missing.push(why.to_owned());
        }
        if sentinel {
            // Without it, stacks are taken at the interrupts that come anyway.
            if let Err(why) = make_sentinels(programs) {
                self.missing
                    .push(format!("stacks while a CPU is blocked ({why})"));
            }
        }
        attach_typed(programs, "on_sched_switch", "sched_switch", btf)
            .or_else(|_| attach_typed(programs, "on_sched_switch_of_old", "sched_switch", btf))
            .map_err(|error| refused("tracing sched_switch", &error))?;
        for tracepoint in NEEDED {
            attach_typed(programs, &format!("on_{tracepoint}"), tracepoint, btf)
                .map_err(|error| refused(&format!("tracing {tracepoint}"), &error))?;
        }
        for tracepoint in WELCOME {
            // A kernel without the tracepoint of such an interrupt has none of the kind.
            let absent_itself = tracepoint.contains("_apic_");
            let attached = attach_typed(programs, &format!("on_{tracepoint}"), tracepoint, btf);
            if attached.is_err() && !absent_itself {
                self.missing.push((*tracepoint).to_owned());
            }
        }
        for tracepoint in WELCOME_RAW {
            if attach_raw(programs, &format!("on_{tracepoint}"), tracepoint).is_err() {
                self.missing.push((*tracepoint).to_owned());
            }
        }
        Ok(())
    }

    /// How many lanes there are: the CPUs asked for, and one for the others.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.places.len()
    }

    /// Hands over what a lane has got since the last time, in the order of its slots, and
    /// returns how many events were overwritten before. These come before what is handed over.
    pub fn drain(&mut self, index: usize, mut take: impl FnMut(Slot)) -> u64 {
        let Place {
            lane,
            first,
            size,
            mut read,
        } = self.places[index];
        let next = &self.lanes.words()[lane * LANE_WORDS + NEXT];
        let slots = &self.slots.words()[first * WORDS..][..size * WORDS];
        let mut lost = 0;
        let end = next.load(Ordering::Acquire);
        if end - read > size as u64 {
            lost += end - read - size as u64;
            read = end - size as u64;
        }
        while read < end {
            let words = &slots[(read as usize & (size - 1)) * WORDS..][..WORDS];
            let slot = copy(words);
            // It was whole if its turn is what it should be, and nobody had begun to write
            // over it when the copy was made.
            fence(Ordering::Acquire);
            if next.load(Ordering::Relaxed) - read > size as u64 {
                lost += 1;
            } else if slot.turn() == read as u32 + 1 {
                take(slot);
            } else {
                // Its writer is not done yet: it and what follows come the next time.
                break;
            }
            read += 1;
        }
        self.places[index].read = read;
        lost
    }

    /// A stack that was taken, innermost first, unless it has been overwritten.
    #[must_use]
    pub fn stack(&self, index: u64, bytes: u64) -> Vec<u64> {
        let frames = (bytes as i64).clamp(0, FRAMES as i64 * 8) as usize / 8;
        let at = (index as usize).saturating_mul(FRAMES);
        self.stacks
            .words()
            .get(at..at + frames)
            .unwrap_or_default()
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .take_while(|address| *address != 0)
            .collect()
    }

    /// What this kernel doesn't offer.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        let next = |place: &Place| {
            self.lanes.words()[place.lane * LANE_WORDS + NEXT].load(Ordering::Relaxed)
        };
        self.places.iter().map(next).sum()
    }
}

fn copy(words: &[AtomicU64]) -> Slot {
    let mut slot = [0; WORDS];
    // The turn first: if it is right, all was written.
    slot[1] = words[1].load(Ordering::Acquire);
    for index in (0..WORDS).filter(|index| *index != 1) {
        slot[index] = words[index].load(Ordering::Relaxed);
    }
    Slot(slot)
}

fn refused(what: &str, error: &dyn std::error::Error) -> Unavailable {
    // The innermost reason is the kernel's own; a verifier's log is many lines.
    let mut reason = error.to_string();
    let mut next = error.source();
    while let Some(inner) = next {
        reason = inner.to_string();
        next = inner.source();
    }
    let line = reason
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Unavailable::new(
        format!("the kernel refused {what}: {line}"),
        "it takes a kernel of 5.15 or later that allows BPF to this user (lockdown, \
         containers and seccomp may not): measuring goes on without",
    )
}

fn map<'a>(programs: &'a Ebpf, name: &str) -> Result<&'a MapData, Unavailable> {
    match programs.map(name) {
        Some(Map::Array(data) | Map::HashMap(data)) => Ok(data),
        _ => Err(Unavailable::new(
            format!("the recorder lacks its map {name}"),
            "build punctual anew",
        )),
    }
}

fn shared(programs: &Ebpf, name: &str, words: usize) -> Result<Shared, Unavailable> {
    Shared::map(map(programs, name)?.fd().as_fd(), words)
        .map_err(|error| refused(&format!("mapping {name}"), &error))
}

fn name_targets(programs: &mut Ebpf, options: &Options) -> Result<(), Unavailable> {
    let map = programs
        .map_mut("targets")
        .ok_or_else(|| Unavailable::new("the recorder lacks its targets", "build punctual anew"))?;
    let failed = |error: aya::maps::MapError| refused("naming the threads", &error);
    let mut targets: HashMap<_, u32, u32> = HashMap::try_from(map).map_err(failed)?;
    for (tid, cpu) in &options.targets {
        targets.insert(tid, cpu, 0).map_err(failed)?;
    }
    Ok(())
}

fn absent(name: &str) -> aya::programs::ProgramError {
    let error = std::io::Error::new(std::io::ErrorKind::NotFound, format!("no program {name}"));
    aya::programs::ProgramError::IOError(error)
}

fn attach_typed(
    programs: &mut Ebpf,
    name: &str,
    tracepoint: &str,
    btf: &Btf,
) -> Result<(), aya::programs::ProgramError> {
    let program = programs.program_mut(name).ok_or_else(|| absent(name))?;
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(tracepoint, btf)?;
    program.attach()?;
    Ok(())
}

fn attach_raw(
    programs: &mut Ebpf,
    name: &str,
    tracepoint: &str,
) -> Result<(), aya::programs::ProgramError> {
    let program = programs.program_mut(name).ok_or_else(|| absent(name))?;
    let program: &mut RawTracePoint = program.try_into()?;
    program.load()?;
    program.attach(tracepoint)?;
    Ok(())
}

/// Gives every CPU its timer.
fn make_sentinels(programs: &mut Ebpf) -> Result<(), String> {
    let text = |error: aya::programs::ProgramError| error.to_string();
    let name = "make_sentinels";
    let program = programs.program_mut(name).ok_or("no such program")?;
    let program: &mut SchedClassifier = <&mut Program>::try_into(program).map_err(text)?;
    program.load().map_err(text)?;
    let fd = program.fd().map_err(text)?;
    match run_once(fd.as_fd()) {
        Ok(0) => Ok(()),
        Ok(step) => Err(format!("timers: step {step}")),
        Err(error) => Err(error.to_string()),
    }
}

/// CPUs that could ever be there.
fn possible_cpus() -> u32 {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().unwrap_or_default();
    last.parse::<u32>()
        .map_or(1, |last| last.saturating_add(1))
        .min(4096)
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|digits| digits.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    found >= (major, minor)
}
