//! The marks' kernel side: `bpf/marks.bpf.c`, loaded, attached to the places and read.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use aya::maps::{Array, HashMap, Map, MapData};
use aya::programs::UProbe;
use aya::{Btf, Ebpf, EbpfLoader};
use punctual_record::{ProbeRefusal, TracingPart, TracingStep};
use punctual_rt::sys::perf::{self, Probe};

use super::super::kernel::other;
use super::{Mark, MarkCounts, MarkLength, MarkPass, Role, Site, Unseen};
use crate::capture::kernel::{incomplete, load, possible_cpus, refused};
use crate::capture::rings::{RingLayout, Rings};
use crate::capture::shared::link;
use crate::capture::slot::Slot;
use crate::capture::unavailable::{self, Unavailable};

/// The compiled program.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/marks.bpf.o"));

/// Passes that each CPU's ring holds. A pass takes a microsecond, and they are read 20 times a
/// second.
const RING: usize = 1 << 15;
/// See `enum kind`.
const LENGTH: u16 = 2;
/// Words of `struct passes` and of `struct others`.
const PASSES_WORDS: usize = 8 + 8 * 7;
type Counted = [u64; PASSES_WORDS];
type OthersWords = [u64; 2];
/// The role's position in a place's cookie: above the mark's number.
const ROLE_SHIFT: u32 = 8;
/// The kernel's PMU for probes in programs.
const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";

/// Active marks. When they are dropped, or this process is killed, all of them are removed from the
/// kernel and from the program.
pub struct ActiveMarks {
    programs: Ebpf,
    rings: Rings,
    /// The links of places; they own their events.
    links: Vec<OwnedFd>,
    marks: Vec<Mark>,
    refused: Vec<Option<Unavailable>>,
    pid: u32,
    kind: u32,
    fresh: Vec<MarkPass>,
}

impl ActiveMarks {
    /// Starts recording the marks of a program's threads, by its number here and the kernel's;
    /// `every`: threads of ordinary priority too. A mark that the kernel refuses is
    /// omitted: see [`ActiveMarks::refused`].
    ///
    /// # Errors
    /// What is missing here, and what to do.
    pub fn start(
        pid: u32,
        kernels_pid: u32,
        every: bool,
        marks: &[Mark],
    ) -> Result<Self, Unavailable> {
        unavailable::check()?;
        let kind = fs::read_to_string(KIND)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .ok_or(Unavailable::NoUprobes)?;
        let btf = Btf::from_sys_fs().map_err(|error| refused(TracingStep::ReadTypes, &error))?;
        let cpus = possible_cpus();
        let all: Vec<u32> = (0..cpus).collect();
        let plan = RingLayout::new(cpus, &all, RING);
        let every = u32::from(every);
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .override_global("program", &kernels_pid, true)
            .override_global("every", &every, true);
        plan.size(&mut loader);
        let mut programs = loader
            .load(OBJECT)
            .map_err(|error| refused(load(TracingPart::Marks), &error))?;
        let rings = plan.map(&programs)?;
        let program = programs
            .program_mut("on_mark")
            .ok_or_else(|| incomplete("on_mark"))?;
        let loaded = |program: &mut UProbe| program.load();
        <&mut UProbe>::try_from(program)
            .and_then(loaded)
            .map_err(|error| refused(load(TracingPart::Marks), &error))?;
        let mut marking = Self {
            programs,
            rings,
            links: Vec::new(),
            marks: marks.to_vec(),
            refused: vec![None; marks.len()],
            pid,
            kind,
            fresh: Vec::new(),
        };
        marking.attach();
        Ok(marking)
    }

    /// For each mark, why it is not recorded, if the kernel refused it.
    #[must_use]
    pub fn refused(&self) -> &[Option<Unavailable>] {
        &self.refused
    }

    /// The kernel identifies the program by its first thread: the watch ends with that.
    fn attach(&mut self) {
        for (index, mark) in self.marks.iter().enumerate() {
            // The end first: an end without a start is not counted as a length.
            let sites = mark.sites.iter().rev();
            let links: Result<Vec<OwnedFd>, Unavailable> =
                sites.map(|site| self.attach_site(index, site)).collect();
            match links {
                Ok(links) => self.links.extend(links),
                Err(why) => self.refused[index] = Some(why),
            }
        }
    }

    fn attach_site(&self, index: usize, site: &Site) -> Result<OwnedFd, Unavailable> {
        let program = self.program().ok_or_else(|| incomplete("on_mark"))?;
        let path = CString::new(site.path.as_os_str().as_bytes())
            .map_err(|error| refused(TracingStep::MarkPath, &error))?;
        let probe = Probe {
            path: &path,
            offset: site.offset,
            returns: site.role == Role::Return,
            semaphore: site.semaphore,
        };
        let event = perf::set_probe(self.pid as libc::pid_t, self.kind, &probe)
            .map_err(|error| not_placed(site.offset, &error))?;
        let cookie = index as u64 | (site.role as u64) << ROLE_SHIFT;
        link(program, event.as_fd(), cookie).map_err(|error| not_placed(site.offset, &error))
    }

    fn program(&self) -> Option<BorrowedFd<'_>> {
        let program = self.programs.program("on_mark")?;
        Some(program.fd().ok()?.as_fd())
    }

    /// The recorded passes, in order.
    pub fn drain(&mut self) -> Vec<MarkPass> {
        let until_ns = punctual_rt::clock::now_ns();
        for index in 0..self.rings.count() {
            // A thread's count shows what was overwritten.
            self.rings
                .drain(index, |slot| self.fresh.push(passed(&slot)));
        }
        self.fresh.sort_by_key(|pass| pass.at_ns);
        let settled = self.fresh.partition_point(|pass| pass.at_ns < until_ns);
        self.fresh.drain(..settled).collect()
    }

    /// The threads that passed, with their counts.
    #[must_use]
    pub fn passes(&self) -> Vec<MarkCounts> {
        let map = match self.programs.map("passes") {
            Some(map @ Map::HashMap(_)) => HashMap::<&MapData, [u32; 2], Counted>::try_from(map),
            _ => return Vec::new(),
        };
        let entries = map.into_iter().flat_map(|map| {
            let entries = map.iter().filter_map(Result::ok);
            entries.collect::<Vec<_>>()
        });
        entries
            .map(|([tid, mark], words)| MarkCounts {
                mark,
                started_ns: words[0],
                task: other(u64::from(tid), words[1], &words[2..4]),
                count: words[4],
                unfinished: words[5],
                unmatched: words[6],
                open_since_ns: (words[7] > 0).then_some(words[8]),
            })
            .collect()
    }

    /// Passes that are counted nowhere else, for each mark.
    #[must_use]
    pub fn unseen(&self) -> Vec<Unseen> {
        let map = self.programs.map("others");
        let map = map.and_then(|map| Array::<&MapData, OthersWords>::try_from(map).ok());
        let of = |index: usize| {
            let words = map.as_ref()?.get(&(index as u32), 0).ok()?;
            Some(Unseen {
                unwatched: words[0],
                no_room: words[1],
            })
        };
        (0..self.marks.len())
            .map(|index| of(index).unwrap_or_default())
            .collect()
    }

    /// Removes a thread that has ended, and whose counts were read.
    pub fn forget(&mut self, passes: &MarkCounts) {
        if let Some(map) = self.programs.map_mut("passes")
            && let Ok(mut map) = HashMap::<_, [u32; 2], Counted>::try_from(map)
        {
            let _ = map.remove(&[passes.task.tid, passes.mark]);
        }
    }
}

/// The meaning of a refusal.
fn not_placed(offset: u64, error: &io::Error) -> Unavailable {
    /// The kernel's own number for "not supported"; no C library names it.
    const NOT_SUPPORTED: i32 = 524;
    let number = error.raw_os_error();
    let error = || error.to_string();
    let refusal = match number {
        Some(libc::EINVAL | libc::EIO | libc::EOPNOTSUPP | NOT_SUPPORTED) => {
            ProbeRefusal::Instruction
        }
        Some(libc::ENOENT | libc::ESRCH) => ProbeRefusal::Gone,
        Some(libc::EPERM | libc::EACCES) => ProbeRefusal::Forbidden { error: error() },
        _ => ProbeRefusal::Other { error: error() },
    };
    Unavailable::NoProbe { offset, refusal }
}

fn passed(slot: &Slot) -> MarkPass {
    let length = MarkLength {
        ns: slot.b(),
        waited_ns: Some(slot.c()).filter(|ns| *ns != u64::MAX),
        preempted: (slot.d() >> 32) as u32,
        slept: slot.d() as u32,
        faults: (slot.0[6] >> 32) + (slot.0[6] & u64::from(u32::MAX)),
    };
    MarkPass {
        mark: (slot.a() >> 32) as u32,
        tid: slot.a() as u32,
        started_ns: slot.0[7],
        at_ns: slot.at_ns(),
        length: (slot.kind() == LENGTH).then_some(length),
    }
}
