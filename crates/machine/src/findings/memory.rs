//! What makes memory slow or absent.

use punctual_record::finding::{Fault, FindingState, ItemKind, Seen, Unknown};

use crate::look::{
    Look, Looked, bad, chosen, expected, information, information_that, ok, present, threads_of,
    unknown, without,
};

/// The files and partitions of `/proc/swaps`.
fn swaps(look: &mut Look<'_>) -> Result<Vec<String>, FindingState> {
    let path = "/proc/swaps";
    // A kernel without swap has no such file.
    let Some(text) = look.optional_unshown(path)? else {
        look.saw_none(path);
        return without(path);
    };
    let mut lines = text.lines();
    let head = lines.next().filter(|line| line.starts_with("Filename"));
    Look::parsed(path, head)?;
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let swaps: Vec<String> = lines.filter_map(name).collect();
    let seen = if swaps.is_empty() {
        Seen::Nothing
    } else {
        Seen::InUse
    };
    look.seen(path, seen);
    Ok(swaps)
}

pub(super) fn swap(look: &mut Look<'_>) -> Looked {
    let swaps = swaps(look)?;
    if swaps.is_empty() {
        ok()
    } else {
        bad(present(swaps)).by_hand().end()
    }
}

pub(super) fn swappiness(look: &mut Look<'_>) -> Looked {
    if swaps(look)?.is_empty() {
        return without(ItemKind::Swap);
    }
    let path = "/proc/sys/vm/swappiness";
    if look.required_number(path)? > 10 {
        bad(Fault::Above(10)).write(path, 10).end()
    } else {
        ok()
    }
}

pub(super) fn transparent_hugepages(look: &mut Look<'_>) -> Looked {
    let folder = "/sys/kernel/mm/transparent_hugepage";
    let path = format!("{folder}/enabled");
    let text = look.feature(&path)?;
    let mut outcome = bad(expected(&["madvise", "never"]));
    match Look::parsed(&path, chosen(&text))? {
        "always" => outcome = outcome.write(&path, "madvise"),
        word => Look::parsed(&path, matches!(word, "madvise" | "never").then_some(()))?,
    }
    // Documentation/admin-guide/mm/transhuge.rst: from Linux 6.8 on each size has a word of its own, and
    // `inherit` takes the one above.
    let mut sizes = look.machine.root.names(folder).unwrap_or_default();
    sizes.retain(|name| name.starts_with("hugepages-"));
    sizes.sort_by_key(|name| (name.len(), name.clone()));
    for size in sizes {
        let path = format!("{folder}/{size}/enabled");
        // Some sizes are of files in memory alone.
        let Some(text) = look.optional_unshown(&path)? else {
            continue;
        };
        match Look::parsed(&path, chosen(&text))? {
            "never" => {}
            "always" => {
                look.saw(path.clone(), &text);
                outcome = outcome.write(&path, "madvise");
            }
            word => {
                look.saw(path.clone(), &text);
                Look::parsed(&path, matches!(word, "inherit" | "madvise").then_some(()))?;
            }
        }
    }
    if outcome.fixes.is_empty() {
        ok()
    } else {
        outcome.end()
    }
}

pub(super) fn ksm(look: &mut Look<'_>) -> Looked {
    let path = "/sys/kernel/mm/ksm/run";
    if look.number(path)? == 1 {
        // 2 stops it and separates the merged pages; writing 0 would leave them merged.
        bad(expected(&["0", "2"])).write(path, 2).end()
    } else {
        ok()
    }
}

pub(super) fn numa_balancing(look: &mut Look<'_>) -> Looked {
    let path = "/proc/sys/kernel/numa_balancing";
    if look.number(path)? == 0 {
        ok()
    } else {
        bad(expected(&["0"])).write(path, 0).end()
    }
}

/// Compaction moves pages that are locked in memory: the next access faults.
pub(super) fn compaction(look: &mut Look<'_>) -> Looked {
    let proactive = "/proc/sys/vm/compaction_proactiveness";
    let unevictable = "/proc/sys/vm/compact_unevictable_allowed";
    let moves_locked = look.number(unevictable)? != 0;
    let is_proactive = match look.optional(proactive)? {
        Some(text) => Look::parsed(proactive, text.parse::<i64>().ok())? > 0,
        None => false,
    };
    if !moves_locked && !is_proactive {
        return ok();
    }
    let mut outcome = bad(expected(&["0"]));
    if moves_locked {
        outcome = outcome.write(unevictable, 0);
    }
    if is_proactive {
        outcome = outcome.write(proactive, 0);
    }
    outcome.end()
}

/// DAMON's threads and the generations of the LRU walk page tables.
pub(super) fn memory_scanners(look: &mut Look<'_>) -> Looked {
    let running = look.kernel_threads(|task| task.name.starts_with("kdamond"))?;
    let seen = Seen::Count(running.len() as u64);
    look.seen(threads_of(&["kdamond.*"]), seen);
    let reclaim = "/proc/sys/vm/zone_reclaim_mode";
    // Absent without NUMA.
    let reclaims = match look.optional(reclaim)? {
        Some(text) => Look::parsed(reclaim, text.parse::<i64>().ok())? != 0,
        None => false,
    };
    if running.is_empty() && !reclaims {
        return ok();
    }
    let outcome = if running.is_empty() {
        bad(expected(&["0"]))
    } else {
        let names = running.iter().map(|task| &task.name);
        bad(present(names)).by_hand()
    };
    if reclaims {
        outcome.write(reclaim, 0).end()
    } else {
        outcome.end()
    }
}

pub(super) fn dirty_writeback(look: &mut Look<'_>) -> Looked {
    // A ratio and its number of bytes set each other to zero: what is in force is the one that
    // is not zero.
    let ratio = look.required_number("/proc/sys/vm/dirty_ratio")?;
    look.optional("/proc/sys/vm/dirty_bytes")?;
    look.optional("/proc/sys/vm/dirty_background_ratio")?;
    if ratio > 20 {
        bad(Fault::Above(20))
            .write("/proc/sys/vm/dirty_ratio", 20)
            .end()
    } else {
        information().end()
    }
}

pub(super) fn min_free(look: &mut Look<'_>) -> Looked {
    look.required_number("/proc/sys/vm/min_free_kbytes")?;
    look.optional("/proc/sys/vm/watermark_scale_factor")?;
    information().end()
}

pub(super) fn hugepages(look: &mut Look<'_>) -> Looked {
    look.number("/proc/sys/vm/nr_hugepages")?;
    information().end()
}

/// The deepest nesting of groups whose limits are read.
const DEPTH: usize = 32;

/// A memory limit of the program's control group or of one above it: near it every allocation
/// reclaims. The one that is nearest decides, and is shown.
pub(super) fn memory_limit(look: &mut Look<'_>) -> Looked {
    let path = format!("{}/cgroup", look.machine.process);
    let text = look.unshown(&path)?;
    let of_memory = |line: &&str| line.split(':').nth(1) == Some("memory");
    let of_unified = |line: &&str| line.starts_with("0::");
    let (line, mount, limit, usage) = match text.lines().find(of_memory) {
        Some(line) => (
            line,
            "/sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
        None => match text.lines().find(of_unified) {
            Some(line) => (line, "/sys/fs/cgroup", "memory.max", "memory.current"),
            None => return unknown(Unknown::NotUnderstood(path)),
        },
    };
    look.saw(path, line);
    let group = line.splitn(3, ':').nth(2).unwrap_or_default();
    let own = format!("{mount}{}", group.trim_end_matches('/'));
    let own = own.as_str();
    let groups = std::iter::successors(Some(own), |folder| {
        let (above, _) = folder.rsplit_once('/')?;
        (above.len() >= mount.len()).then_some(above)
    });
    let mut unlimited = None;
    let mut nearest: Option<Limit> = None;
    let folders: Vec<&str> = groups.take(DEPTH).collect();
    // `memory.high` throttles and reclaims above it, before `memory.max`; version 1 has none.
    let limits: &[&str] = match limit {
        "memory.max" => &["memory.max", "memory.high"],
        _ => &[limit],
    };
    for (folder, limit) in folders
        .iter()
        .flat_map(|it| limits.iter().map(move |limit| (*it, *limit)))
    {
        // Only version 1 has this file: what a group uses then doesn't count for those above it.
        let hierarchy = format!("{folder}/memory.use_hierarchy");
        if folder != own && look.optional_unshown(&hierarchy)?.as_deref() == Some("0") {
            break;
        }
        let path = format!("{folder}/{limit}");
        // The root group has no limit, and a group without the controller only those above it.
        let Some(text) = look.optional_unshown(&path)? else {
            continue;
        };
        let bytes = match text.as_str() {
            "max" => u64::MAX,
            number => Look::parsed(&path, number.parse().ok())?,
        };
        // Version 1 states the largest multiple of a page that a `long` holds.
        if bytes >= i64::MAX as u64 / 2 {
            unlimited.get_or_insert((path, text));
            continue;
        }
        let usage = format!("{folder}/{usage}");
        let used = look.unshown(&usage)?;
        let used = Look::parsed(&usage, used.parse().ok())?;
        let limit = Limit {
            path,
            bytes,
            usage,
            used,
        };
        if nearest
            .as_ref()
            .is_none_or(|it| it.filled() < limit.filled())
        {
            nearest = Some(limit);
        }
    }
    let Some(limit) = nearest else {
        let Some((path, text)) = unlimited else {
            let path = format!("{own}/{}", limits[0]);
            look.saw_none(path.clone());
            return without(path);
        };
        look.saw(path, &text);
        return ok();
    };
    look.saw(limit.path, &limit.bytes.to_string());
    look.saw(limit.usage, &limit.used.to_string());
    let near = limit.bytes - limit.bytes / 10;
    if limit.used > near {
        bad(Fault::Above(near)).by_hand().end()
    } else {
        information_that(Fault::Above(near)).end()
    }
}

/// The limit of one group, and what it uses.
struct Limit {
    path: String,
    bytes: u64,
    usage: String,
    used: u64,
}

impl Limit {
    /// How much of it is used, in millionths.
    fn filled(&self) -> u128 {
        u128::from(self.used) * 1_000_000 / u128::from(self.bytes.max(1))
    }
}
