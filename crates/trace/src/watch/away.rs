//! Where threads are while they are off the CPU: reads the maps of `bpf/away.h`.

use std::fs;

use aya::maps::{Array, HashMap, MapData, StackTraceMap};
use aya::{Ebpf, EbpfLoader};

use super::{AWAY_FRAMES, OffCpuCount, OffCpuLost, OffCpuReason};

/// Places of threads off the CPU, and stacks, that are kept.
const MOST: u32 = 16384;

/// Words of `struct away_key`, `struct away` and `struct away_lost`.
type Key = [u32; 4];
type Counted = [u64; 4];
type Lost = [u64; 3];

/// The compiled programs, by the greatest depth of a stack: `AWAY_FRAMES`.
static OBJECTS: [(u32, &[u8]); 3] = [
    (
        AWAY_FRAMES,
        aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/watch_64.bpf.o")),
    ),
    (
        16,
        aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/watch_16.bpf.o")),
    ),
    (
        0,
        aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/watch_0.bpf.o")),
    ),
];

/// The program with the deepest stacks for which this kernel accepts a map, and their depth; without
/// stacks, if they were not requested.
pub(super) fn object(asked: bool) -> (u32, &'static [u8]) {
    let most = fs::read_to_string("/proc/sys/kernel/perf_event_max_stack");
    let most = most.ok().and_then(|text| text.trim().parse::<u32>().ok());
    within(if asked {
        most.unwrap_or(AWAY_FRAMES)
    } else {
        0
    })
}

fn within(most: u32) -> (u32, &'static [u8]) {
    let mut objects = OBJECTS.iter().filter(|(frames, _)| *frames <= most);
    *objects.next().unwrap_or(&OBJECTS[2])
}

/// Switches it on or off, before the program is loaded.
pub(super) fn ask<'a>(loader: &mut EbpfLoader<'a>, asked: &'a u32) {
    loader.override_global("off_cpu", asked, true);
    if *asked != 0 {
        loader
            .map_max_entries("aways", MOST)
            .map_max_entries("away_stacks", MOST);
    }
}

/// All places, with their counts since each was first seen.
pub(super) fn read(programs: &Ebpf) -> Vec<OffCpuCount> {
    let map = programs.map("aways");
    let map = map.and_then(|map| HashMap::<&MapData, Key, Counted>::try_from(map).ok());
    let entries = map.iter().flat_map(|map| map.iter().filter_map(Result::ok));
    entries
        .filter_map(
            |([tid, why, kernel, user], [count, total_ns, longest_ns, at])| {
                let stack = |number: u32| (number as i32 >= 0).then_some(number);
                Some(OffCpuCount {
                    tid,
                    why: OffCpuReason::from_number(why)?,
                    kernel: stack(kernel),
                    user: stack(user),
                    count,
                    total_ns,
                    longest_ns,
                    longest_at_ns: at,
                })
            },
        )
        .collect()
}

/// A stack, innermost first.
pub(super) fn stack(programs: &Ebpf, number: u32) -> Vec<u64> {
    let map = programs.map("away_stacks");
    let map = map.and_then(|map| StackTraceMap::try_from(map).ok());
    let stack = map.and_then(|map| map.get(&number, 0).ok());
    stack.map_or_else(Vec::new, |stack| {
        stack.frames().iter().map(|frame| frame.ip).collect()
    })
}

/// Removes a thread's entries.
pub(super) fn forget(programs: &mut Ebpf, tid: u32) {
    let Some(map) = programs.map_mut("aways") else {
        return;
    };
    let Ok(mut map) = HashMap::<_, Key, Counted>::try_from(map) else {
        return;
    };
    let of_it: Vec<Key> = map
        .keys()
        .filter_map(Result::ok)
        .filter(|key| key[0] == tid)
        .collect();
    for key in of_it {
        let _ = map.remove(&key);
    }
}

/// What exceeded the maps.
pub(super) fn lost(programs: &Ebpf) -> OffCpuLost {
    let map = programs.map("away_lost");
    let counts = map.and_then(|map| Array::<_, Lost>::try_from(map).ok());
    let counts = counts.and_then(|counts| counts.get(&0, 0).ok());
    let [count, total_ns, stackless] = counts.unwrap_or_default();
    OffCpuLost {
        count,
        total_ns,
        stackless,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_as_deep_as_the_kernel_allows() {
        let frames = |most: u32| within(most).0;
        assert_eq!([127, 64, 63, 16, 15, 0].map(frames), [64, 64, 16, 16, 0, 0]);
        assert_eq!(object(false).0, 0);
    }
}
