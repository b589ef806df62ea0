//! Where the threads of a program are while they are off the CPU: sums from the kernel, with names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::followed::Followed;
use punctual_record::explanation::NoKernelNames;
use punctual_record::watch::{OffCpu, OffCpuPlace, OffCpuWhy, TimesSum};
use punctual_record::{Event, Happening};
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::capture::stacks;
use punctual_trace::capture::symbols::Symbols;
use punctual_trace::watch::user_symbols::UserSymbols;
use punctual_trace::watch::{AWAY_FRAMES, ActiveWatch, OffCpuCount, OffCpuLost, OffCpuReason};

/// Places that are kept, including those of threads that have ended.
const MOST: usize = 32768;

/// A place: the index of its thread's row, when that thread began, and the numbers of its stacks.
type Key = (usize, u64, OffCpuReason, Option<u32>, Option<u32>);

/// Everything known about off-CPU times.
pub(super) struct Aways {
    /// The kernel's function names; without them functions are shown as addresses.
    kernel: Arc<Symbols>,
    user: UserSymbols,
    places: BTreeMap<Key, OffCpuCount>,
    /// Stacks with names, by their numbers; a program's also by program.
    kernel_stacks: BTreeMap<u32, Vec<String>>,
    user_stacks: BTreeMap<(u32, u32), Vec<String>>,
    /// Places for which there was no room.
    beyond: BTreeMap<Key, TimesSum>,
    lost: OffCpuLost,
}

impl Aways {
    /// `known`: the kernel's names, if they are already loaded.
    pub fn new(
        known: Option<Result<Arc<Symbols>, NoKernelNames>>,
        frames: u32,
        events: &mut Vec<Event>,
    ) -> Self {
        events.extend(shallow(frames));
        let known = known.unwrap_or_else(|| Symbols::load().map(Arc::new));
        let kernel = known.unwrap_or_else(|why| {
            events.push(Event::new(0, Happening::OffCpuNames { why }));
            Arc::default()
        });
        Self {
            kernel,
            user: UserSymbols::default(),
            places: BTreeMap::new(),
            kernel_stacks: BTreeMap::new(),
            user_stacks: BTreeMap::new(),
            beyond: BTreeMap::new(),
            lost: OffCpuLost::default(),
        }
    }

    /// Reads the kernel's sums: while the programs of the stacks are alive, and before a thread's data
    /// is dropped.
    pub fn look(&mut self, watching: &ActiveWatch, threads: &[Followed], numbers: &Numbers) {
        self.lost = watching.away_lost();
        for away in watching.aways().into_iter().filter_map(consistent) {
            let Some(at) = threads.iter().position(|it| it.is(away.tid)) else {
                continue;
            };
            let key = (
                at,
                threads[at].sleeper.started_ns,
                away.why,
                away.kernel,
                away.user,
            );
            if !self.places.contains_key(&key) && self.places.len() >= MOST {
                if self.beyond.len() < MOST {
                    let mut sum = TimesSum::default();
                    sum.add(away.count, away.total_ns);
                    self.beyond.insert(key, sum);
                }
                continue;
            }
            self.name(&away, threads[at].sleeper.program, watching, numbers);
            self.places.insert(key, away);
        }
    }

    /// Names the functions of stacks that are seen for the first time.
    fn name(
        &mut self,
        away: &OffCpuCount,
        program: u32,
        watching: &ActiveWatch,
        numbers: &Numbers,
    ) {
        if let Some(number) = away.kernel
            && !self.kernel_stacks.contains_key(&number)
        {
            let functions = stacks::functions(&watching.away_stack(number), &self.kernel);
            self.kernel_stacks.insert(number, functions);
        }
        if let Some(number) = away.user
            && !self.user_stacks.contains_key(&(program, number))
        {
            let pid = numbers.in_proc(program);
            let mut name = |address: &u64| {
                let name = pid.and_then(|pid| self.user.name(pid, *address));
                name.unwrap_or_else(|| UNKNOWN.to_owned())
            };
            let frames = watching.away_stack(number);
            let mut functions: Vec<String> = frames.iter().map(&mut name).collect();
            // Without frame pointers, addresses are not valid.
            while functions.len() > 1 && functions.last().is_some_and(|it| it == UNKNOWN) {
                functions.pop();
            }
            self.user_stacks.insert((program, number), functions);
        }
    }

    pub fn to_record(&self, threads: &[Followed]) -> OffCpu {
        let mut record = OffCpu {
            no_room: match self.lost.count {
                0 => TimesSum::default(),
                count => TimesSum {
                    count,
                    total_ns: self.lost.total_ns,
                },
            },
            stackless: self.lost.stackless,
            ..OffCpu::default()
        };
        for sum in self.beyond.values() {
            record.beyond.add(sum.count, sum.total_ns);
        }
        let mut joined: BTreeMap<_, OffCpuPlace> = BTreeMap::new();
        for ((at, _, why, kernel, user), away) in &self.places {
            let program = threads.get(*at).map_or(0, |it| it.sleeper.program);
            let kernel = kernel.and_then(|number| self.kernel_stacks.get(&number));
            let user = user.and_then(|number| self.user_stacks.get(&(program, number)));
            let frames = |stack: Option<&Vec<String>>| {
                let frames = stack.into_iter().flatten().take(OffCpu::FRAMES);
                frames.cloned().collect::<Vec<_>>()
            };
            let place = OffCpuPlace {
                thread: u32::try_from(*at).unwrap_or(u32::MAX),
                why: in_record(*why),
                kernel: frames(kernel),
                user: frames(user),
                count: away.count,
                total_ns: away.total_ns,
                longest_ns: away.longest_ns,
                longest_at_ns: away.longest_at_ns,
            };
            // Stacks that differ only in the scheduler's own frames are one place.
            let key = (*at, *why, place.kernel.clone(), place.user.clone());
            match joined.get_mut(&key) {
                Some(known) => known.add(&place),
                None => {
                    joined.insert(key, place);
                }
            }
        }
        record.places = joined.into_values().collect();
        record.settle();
        record
    }
}

/// The kernel continues to count while its sums are read word by word, so the words may be of two
/// moments. Consistent sums are off by at most one time; the first of a place is read the next time.
fn consistent(away: OffCpuCount) -> Option<OffCpuCount> {
    if away.count == 0 || away.longest_at_ns == 0 {
        return None;
    }
    let possible = OffCpuPlace::possible_total(away.count, away.longest_ns);
    let total_ns = away.total_ns.clamp(*possible.start(), *possible.end());
    Some(OffCpuCount { total_ns, ..away })
}

/// The event if the kernel records stacks less deep than there is room for.
fn shallow(frames: u32) -> Option<Event> {
    let what = Happening::OffCpuStacks {
        frames,
        wanted: AWAY_FRAMES,
    };
    (frames < AWAY_FRAMES).then(|| Event::new(0, what))
}

/// A frame without a name, in the form of other tools.
const UNKNOWN: &str = "[unknown]";

fn in_record(why: OffCpuReason) -> OffCpuWhy {
    match why {
        OffCpuReason::Asleep => OffCpuWhy::Asleep,
        OffCpuReason::Uninterruptible => OffCpuWhy::Uninterruptible,
        OffCpuReason::Runnable => OffCpuWhy::Preempted,
        OffCpuReason::Throttled => OffCpuWhy::Throttled,
        OffCpuReason::Held => OffCpuWhy::Stopped,
        OffCpuReason::Yielded => OffCpuWhy::Yielded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As read while the kernel counts one time more, after each word that it writes.
    #[test]
    fn sums_that_are_read_while_they_change_agree_with_themselves() {
        let away = |count, total_ns, longest_ns, longest_at_ns| OffCpuCount {
            tid: 1,
            why: OffCpuReason::Asleep,
            kernel: None,
            user: None,
            count,
            total_ns,
            longest_ns,
            longest_at_ns,
        };
        let read = |away| consistent(away).map(|it| (it.count, it.total_ns, it.longest_ns));
        assert_eq!(read(away(3, 30, 15, 7)), Some((3, 30, 15)));
        assert_eq!(read(away(1, 15, 900, 7)), Some((1, 900, 900)));
        assert_eq!(read(away(1, 915, 15, 7)), Some((1, 15, 15)));
        assert_eq!(read(away(1, 15, 15, 0)), None);
        assert_eq!(read(away(0, 0, 0, 0)), None);
    }

    #[test]
    fn stacks_that_are_less_deep_are_spoken_of() {
        assert_eq!(shallow(64), None);
        for frames in [16, 0] {
            let told = shallow(frames).map(|event| event.what);
            let wanted = AWAY_FRAMES;
            assert_eq!(told, Some(Happening::OffCpuStacks { frames, wanted }));
        }
    }
}
