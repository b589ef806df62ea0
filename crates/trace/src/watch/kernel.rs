//! The watch's kernel side: `bpf/watch.bpf.c`, loaded, attached and read.

use aya::maps::{Array, HashMap, Map, MapData};
use aya::{Btf, Ebpf, EbpfLoader};

use super::{
    Call, Job, MOST_PROGRAMS, OffCpuCount, OffCpuLost, Options, Other, PendingWake, ProgramEvent,
    Programs, RepeatingTimer, Reservation, RunQueues, Sleeper, StoppedThread, Timer, Wake, away,
    queue,
};
use crate::calls;
use crate::capture::kernel::{
    attach, attach_typed, load, locate_preempt_count, possible_cpus, read_layout, refused,
};
use crate::capture::rings::{RingLayout, Rings};
use crate::capture::slot::{Slot, text};
use crate::capture::symbols;
use crate::capture::unavailable::{self, Unavailable};
use punctual_record::StopCause;
use punctual_record::{TracingPart, TracingStep};

/// Besides the switches; all of them are needed.
const TRACEPOINTS: &[&str] = &[
    "hrtimer_cancel",
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "hrtimer_start",
    "sched_process_exec",
    "sched_waking",
];

/// Words of `struct watched` and of `struct call`.
const THREAD_WORDS: usize = 60;
const CALL_WORDS: usize = 11;
type Thread = [u64; THREAD_WORDS];
type Counted = [u64; CALL_WORDS];

/// See `enum kind`.
const WOKEN: u16 = 1;
const STOPPED: u16 = 3;
const JOB: u16 = 4;
const AWAKE: u16 = 5;
const INTERVAL: u16 = 6;
/// See `enum stop`.
const BY_SIGNAL: u64 = 1;
const BY_DEBUGGER: u64 = 2;
/// The offset of the instant at which the thread went to sleep in `struct watched`, of when and for which instant it
/// was made ready since, and of what stopped it.
const LEFT: usize = 21;
const WAKING: usize = 23;
const DUE: usize = 24;
const STOP: usize = 40;
/// The offset of its program.
const PROGRAM: usize = 42;
/// The offset of its throttles: how often, for how long, and the longest.
const THROTTLES: usize = 50;
/// The offset of the signal that ended it.
const KILLED_BY: usize = 58;
/// The offset of when it lost its real-time priority.
const DEMOTED: usize = 59;
/// Words of `struct followed` and of `struct coming`.
type FollowedWords = [u64; 2];
type Coming = [u64; 2];
/// Turns of programs that user space announces: distinct from those that the kernel side counts.
const TOLD: u64 = 1 << 63;
/// `UPDATE_NOEXIST`: an entry of the kernel side stays.
const UNLESS_THERE: u64 = 1;
/// `FOR_A_LENGTH`, `REARMED` and `UNSURE` of a wake-up's call.
const FOR_A_LENGTH: u32 = 1 << 31;
const REARMED: u32 = 1 << 30;
const UNSURE: u32 = 1 << 29;
/// `timer_functions`.
const TIMER_FUNCTIONS: [&str; 6] = [
    "timerfd_tmrproc",
    "posix_timer_fn",
    "it_real_fn",
    "io_timeout_fn",
    "io_link_timeout_fn",
    "alarmtimer_fired",
];

/// A watch in progress. When it is dropped, or this process is killed, all of it is removed from
/// the kernel.
pub struct ActiveWatch {
    // Owns programs, links and maps by descriptors: however this process ends, they end with it.
    programs: Ebpf,
    rings: Rings,
    away_frames: u32,
    /// Read from a ring, but an earlier entry of another CPU may still follow.
    fresh: Vec<ProgramEvent>,
    /// The number of announced programs.
    told: u64,
}

impl ActiveWatch {
    /// Starts watching.
    ///
    /// # Errors
    /// What is missing here, and what to do.
    pub fn start(options: &Options) -> Result<Self, Unavailable> {
        unavailable::check()?;
        let btf = Btf::from_sys_fs().map_err(|error| refused(TracingStep::ReadTypes, &error))?;
        let cpus = possible_cpus();
        let all: Vec<u32> = (0..cpus).collect();
        let plan = RingLayout::new(cpus, &all, options.ring);
        let every = u32::from(options.every);
        let functions = symbols::addresses(TIMER_FUNCTIONS);
        let layout = read_layout();
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .override_global("every", &every, true)
            .override_global("timer_functions", &functions, true);
        let (pid, children, name, group, hierarchy);
        let (off_cpu, run_queue) = (u32::from(options.off_cpu), u32::from(options.run_queue));
        locate_preempt_count(&mut loader, &layout);
        away::ask(&mut loader, &off_cpu);
        queue::ask(&mut loader, &run_queue);
        let mut coming: Vec<&str> = Vec::new();
        if options.run_queue {
            coming.extend(queue::TRACEPOINTS);
        }
        match options.programs {
            Programs::One(one) => {
                pid = one;
                loader.override_global("program", &pid, true);
            }
            Programs::Several(joining) => {
                children = u32::from(joining.children);
                name = joining.name;
                (group, hierarchy) = joining.group.unwrap_or_default();
                loader
                    .override_global("children", &children, true)
                    .override_global("name_is", &name, true)
                    .override_global("group", &group, true)
                    .override_global("hierarchy", &hierarchy, true)
                    .map_max_entries("programs", MOST_PROGRAMS);
                let named = name != [0; 16];
                coming.extend(joining.children.then_some("sched_process_fork"));
                coming.extend(named.then_some("task_rename"));
                coming.extend(joining.group.map(|_| "cgroup_attach_task"));
            }
        }
        plan.size(&mut loader);
        let (away_frames, object) = away::object(options.off_cpu);
        let mut programs = loader
            .load(object)
            .map_err(|error| refused(load(TracingPart::Watch), &error))?;
        let rings = plan.map(&programs)?;
        for tracepoint in TRACEPOINTS.iter().chain(&coming) {
            attach_typed(&mut programs, &format!("on_{tracepoint}"), tracepoint, &btf)
                .map_err(|error| refused(attach(tracepoint), &error))?;
        }
        attach_typed(&mut programs, "on_sched_switch", "sched_switch", &btf)
            .or_else(|_| {
                let of_old = "on_sched_switch_of_old";
                attach_typed(&mut programs, of_old, "sched_switch", &btf)
            })
            .map_err(|error| refused(attach("sched_switch"), &error))?;
        Ok(Self {
            programs,
            rings,
            away_frames,
            fresh: Vec::new(),
            told: 0,
        })
    }

    /// The wake-ups and stops that have come, in the order of their ends.
    pub fn drain(&mut self) -> Vec<ProgramEvent> {
        let until_ns = punctual_rt::clock::now_ns();
        for index in 0..self.rings.count() {
            // A thread's count shows what was overwritten.
            self.rings
                .drain(index, |slot| self.fresh.push(happened(&slot)));
        }
        self.fresh.sort_by_key(ProgramEvent::end_ns);
        let settled = self.fresh.partition_point(|it| it.end_ns() < until_ns);
        self.fresh.drain(..settled).collect()
    }

    /// The threads seen so far, with their counts.
    #[must_use]
    pub fn threads(&self) -> Vec<Sleeper> {
        let Some(map) = self.hash::<u32, Thread>("threads") else {
            return Vec::new();
        };
        let entries = map.iter().filter_map(Result::ok);
        entries.map(|(tid, words)| sleeper(tid, &words)).collect()
    }

    /// What they slept in, with the thread's number.
    #[must_use]
    pub fn calls(&self) -> Vec<(u32, Call)> {
        let Some(map) = self.hash::<[u32; 2], Counted>("calls") else {
            return Vec::new();
        };
        let entries = map.iter().filter_map(Result::ok);
        entries
            .map(|([tid, number], words)| (tid, call(number, &words)))
            .collect()
    }

    /// Where they were off the CPU, if that was requested.
    #[must_use]
    pub fn aways(&self) -> Vec<OffCpuCount> {
        away::read(&self.programs)
    }

    /// The greatest depth of their stacks: [`AWAY_FRAMES`](super::AWAY_FRAMES), or less if
    /// this kernel accepts no deeper ones.
    #[must_use]
    pub fn away_frames(&self) -> u32 {
        self.away_frames
    }

    /// A stack of theirs, innermost first.
    #[must_use]
    pub fn away_stack(&self, number: u32) -> Vec<u64> {
        away::stack(&self.programs, number)
    }

    /// Times off the CPU that exceeded the map.
    #[must_use]
    pub fn away_lost(&self) -> OffCpuLost {
        away::lost(&self.programs)
    }

    /// How long threads waited for a CPU, if that was requested.
    pub fn run_queues(&mut self) -> RunQueues<'_> {
        RunQueues::of_programs(&mut self.programs)
    }

    /// Switches of threads that exceeded the map.
    #[must_use]
    pub fn unfollowed(&self) -> u64 {
        let map = self.programs.map("unfollowed");
        let count = map.and_then(|map| Array::<_, u64>::try_from(map).ok());
        count.and_then(|count| count.get(&0, 0).ok()).unwrap_or(0)
    }

    /// Watches one more program, by the kernel's number, if it isn't watched already.
    pub fn follow(&mut self, program: u32) {
        self.told += 1;
        let value = [0, TOLD | self.told];
        if let Some(mut programs) = self.programs_map() {
            // If the map is full, that is counted below.
            let _ = programs.insert(program, value, UNLESS_THERE);
        }
        if let Some(map) = self.programs.map_mut("departures")
            && let Ok(mut departures) = HashMap::<_, u32, u64>::try_from(map)
        {
            let _ = departures.remove(&program);
        }
    }

    /// When a program, by the kernel's number, left that still ran: it took another name, or was moved out of the
    /// control group.
    #[must_use]
    pub fn departed_ns(&self, program: u32) -> Option<u64> {
        let departures = HashMap::<_, u32, u64>::try_from(self.programs.map("departures")?).ok()?;
        departures.get(&program, 0).ok()
    }

    /// Watches a program no longer.
    pub fn unfollow(&mut self, program: u32) {
        if let Some(mut programs) = self.programs_map() {
            let _ = programs.remove(&program);
        }
    }

    fn programs_map(&mut self) -> Option<HashMap<&mut MapData, u32, FollowedWords>> {
        HashMap::try_from(self.programs.map_mut("programs")?).ok()
    }

    /// The watched programs, by the kernel's numbers, if there are several.
    #[must_use]
    pub fn followed(&self) -> Vec<u32> {
        let map = self.hash::<u32, FollowedWords>("programs");
        map.map_or_else(Vec::new, |map| map.keys().filter_map(Result::ok).collect())
    }

    /// Programs that exceeded the kernel side's map.
    #[must_use]
    pub fn refused(&self) -> u64 {
        let map = self.programs.map("coming");
        let counts = map.and_then(|map| Array::<_, Coming>::try_from(map).ok());
        counts
            .and_then(|counts| counts.get(&0, 0).ok())
            .map_or(0, |counts| counts[1])
    }

    /// Removes a thread that has ended, and whose counts were read.
    pub fn forget(&mut self, tid: u32) {
        let of_it: Vec<u32> = self
            .calls()
            .into_iter()
            .filter(|(owner, _)| *owner == tid)
            .map(|(_, call)| call.call)
            .collect();
        if let Some(map) = self.programs.map_mut("calls")
            && let Ok(mut calls) = HashMap::<_, [u32; 2], Counted>::try_from(map)
        {
            for number in of_it {
                let _ = calls.remove(&[tid, number]);
            }
        }
        away::forget(&mut self.programs, tid);
        if let Some(map) = self.programs.map_mut("threads")
            && let Ok(mut threads) = HashMap::<_, u32, Thread>::try_from(map)
        {
            let _ = threads.remove(&tid);
        }
    }

    fn hash<K: aya::Pod, V: aya::Pod>(&self, name: &str) -> Option<HashMap<&MapData, K, V>> {
        match self.programs.map(name)? {
            map @ Map::HashMap(_) => HashMap::try_from(map).ok(),
            _ => None,
        }
    }
}

fn happened(slot: &Slot) -> ProgramEvent {
    match slot.kind() {
        STOPPED => ProgramEvent::Stopped(StoppedThread {
            tid: slot.a() as u32,
            from_ns: slot.c(),
            to_ns: slot.d(),
            end_ns: slot.at_ns(),
            cause: cause(slot.b()),
        }),
        JOB => ProgramEvent::JobEnded(Job {
            tid: slot.a() as u32,
            end_ns: slot.at_ns(),
            used_ns: slot.b(),
            throttles: slot.a() >> 32,
            of: Reservation {
                runtime_ns: slot.c(),
                deadline_ns: slot.d(),
                period_ns: slot.0[6],
            },
        }),
        INTERVAL => ProgramEvent::Repeats(RepeatingTimer {
            tid: slot.a() as u32,
            at_ns: slot.at_ns(),
            timer: slot.b() as u32,
            interval_ns: slot.c(),
        }),
        _ => ProgramEvent::Woke(wake(slot)),
    }
}

fn cause(stop: u64) -> StopCause {
    match stop {
        BY_SIGNAL => StopCause::Signal,
        BY_DEBUGGER => StopCause::Debugger,
        _ => StopCause::Freezer,
    }
}

fn wake(slot: &Slot) -> Wake {
    let some = |ns: u64| Some(ns).filter(|ns| *ns != 0);
    let (call, object) = ((slot.0[6] >> 32) as u32, slot.0[6] as u32);
    let (relative, rearmed) = (call & FOR_A_LENGTH != 0, call & REARMED != 0);
    let unsure = call & UNSURE != 0;
    let call = call & !(FOR_A_LENGTH | REARMED | UNSURE);
    Wake {
        tid: slot.a() as u32,
        end_ns: slot.at_ns(),
        cpu: slot.cpu(),
        due_ns: some(slot.b()),
        waking_ns: slot.c(),
        waking_cpu: (slot.a() >> 32) as u32 & 0x7fff,
        afresh: slot.a() >> 47 & 1 == 1,
        unseen: slot.a() >> 48,
        armed_ns: some(slot.d()),
        left_ns: some(slot.0[7]).filter(|_| slot.kind() != AWAKE),
        timer: match object {
            object if relative => Timer::Length(object),
            0 if calls::takes_a_length(call) => Timer::Length(0),
            0 => Timer::Instant,
            object => Timer::Object(object),
        },
        call,
        rearmed,
        unsure,
        slept: slot.kind() == WOKEN,
        next_ns: some(slot.0[7]).filter(|_| slot.kind() == AWAKE),
    }
}

pub(super) fn other(tid: u64, priority: u64, words: &[u64]) -> Other {
    Other {
        tid: tid as u32,
        name: text(words),
        policy: (priority >> 32) as u32,
        priority: priority as u32 as i32,
    }
}

fn sleeper(tid: u32, words: &Thread) -> Sleeper {
    Sleeper {
        task: other(u64::from(tid), words[1], &words[2..4]),
        started_ns: words[0],
        cpu: words[4].checked_sub(1).map(|cpu| cpu as u32),
        ended_ns: Some(words[5]).filter(|it| *it != 0),
        unfollowed_ns: Some(words[DEMOTED]).filter(|it| *it != 0),
        killed_by: i32::try_from(words[KILLED_BY]).ok().filter(|it| *it != 0),
        wake_ups: words[6],
        switches: words[7],
        preempted: words[8],
        migrations: words[9],
        minor_faults: words[10].saturating_sub(words[12]),
        major_faults: words[11].saturating_sub(words[13]),
        jobs: words[14],
        late_jobs: words[15],
        worst_job_ns: words[16],
        postponed: words[17],
        throttles: words[THROTTLES],
        throttled_ns: words[THROTTLES + 1],
        worst_throttle_ns: words[THROTTLES + 2],
        no_room: words[18],
        unseen: words[19],
        program: words[PROGRAM] as u32,
        asleep: words[LEFT] != 0 && words[STOP] == 0,
        stopped: (words[STOP] != 0 && words[LEFT] != 0).then(|| (words[LEFT], cause(words[STOP]))),
        pending: pending(words),
    }
}

/// A thread that something other than its timer woke before it had gone to sleep continued to run.
fn pending(words: &Thread) -> Option<PendingWake> {
    let due_ns = Some(words[DUE]).filter(|it| *it != 0);
    let waits = words[WAKING] != 0 && words[STOP] == 0 && words[5] == 0;
    (waits && (words[LEFT] != 0 || due_ns.is_some())).then_some(PendingWake {
        due_ns,
        waking_ns: words[WAKING],
    })
}

fn call(number: u32, words: &Counted) -> Call {
    Call {
        call: number,
        count: words[0],
        total_ns: words[1],
        worst_ns: words[2],
        worst_at_ns: words[3],
        by_timer: words[4],
        inversions: words[5],
        other: (words[6] != 0).then(|| other(words[6], words[7], &words[8..10])),
        held: words[10] != 0,
    }
}
