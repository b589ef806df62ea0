//! What runs now and then.

use std::io;

use punctual_record::finding::{FindingState, Item, NotApplicable, Unknown};

use crate::audit::{self, Audit};
use crate::look::{
    Look, Looked, bad, expected, information, information_that, none_of, not_applicable, ok, part,
    present, unknown, without,
};

/// Programs that change the same settings.
pub(super) const TUNERS: &[&str] = &[
    "tuned",
    "rt-conf",
    "rtirq",
    "irqbalance",
    "system76-schedu",
    "ananicy",
    "ananicy-cpp",
    "thermald",
    "power-profiles-",
    "kubelet",
    "auto-cpufreq",
    "tlp",
];

pub(super) fn watchdogs(look: &mut Look<'_>) -> Looked {
    let nmi = "/proc/sys/kernel/nmi_watchdog";
    let soft = "/proc/sys/kernel/soft_watchdog";
    let mut runs = |path: &str| match look.optional(path)? {
        Some(text) => Look::parsed(path, text.parse::<i64>().ok()).map(|it| Some(it != 0)),
        None => Ok(None),
    };
    let (nmi_runs, soft_runs) = (runs(nmi)?, runs(soft)?);
    if nmi_runs.is_none() && soft_runs.is_none() {
        return without(nmi);
    }
    look.optional("/proc/sys/kernel/watchdog_thresh")?;
    look.optional("/proc/sys/kernel/hung_task_timeout_secs")?;
    // The buddy detector has a timer, and no NMI.
    let has_buddy = look.option("HARDLOCKUP_DETECTOR_BUDDY").unwrap_or(false);
    if nmi_runs == Some(true) && has_buddy {
        information_that(expected(&["0"]))
            .write(nmi, 0)
            .boot("nmi_watchdog=0")
            .end()
    } else if nmi_runs == Some(true) {
        bad(expected(&["0"]))
            .write(nmi, 0)
            .boot("nmi_watchdog=0")
            .end()
    } else if soft_runs == Some(true) {
        // A timer on each CPU every 4 s: it finds hangs.
        information_that(expected(&["0"]))
            .write(soft, 0)
            .boot("nosoftlockup")
            .end()
    } else {
        ok()
    }
}

/// Expedited grace periods interrupt every CPU; some platforms set them on purpose.
pub(super) fn rcu_expedited(look: &mut Look<'_>) -> Looked {
    let path = "/sys/kernel/rcu_expedited";
    let expedited = look.number(path)?;
    let normal = look.number("/sys/kernel/rcu_normal")?;
    if expedited != 0 && normal == 0 {
        information_that(expected(&["0"]))
            .write(path, 0)
            .boot("rcupdate.rcu_normal_after_boot=1")
            .end()
    } else {
        ok()
    }
}

pub(super) fn rcu_stall(look: &mut Look<'_>) -> Looked {
    look.number("/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout")?;
    look.optional("/proc/sys/kernel/panic_on_rcu_stall")?;
    information().end()
}

/// The kernel's messages above this level go to a console.
const QUIET_LEVEL: i64 = 4;

pub(super) fn serial_console(look: &mut Look<'_>) -> Looked {
    let consoles = look.unshown("/proc/consoles")?;
    let names: Vec<&str> = consoles
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    look.saw("/proc/consoles", &names.join(", "));
    let path = "/proc/sys/kernel/printk";
    let text = look.required(path)?;
    let level = text.split_whitespace().next();
    let level: i64 = Look::parsed(path, level.and_then(|it| it.parse().ok()))?;
    // A virtual terminal, ramoops (`pstore` before Linux 5.8) and the console that writes nowhere are memory only; each driver
    // of a serial port has a name of its own (ttyS, ttyAMA, ttymxc, ttyPS, hvc ...).
    let is_slow = |name: &&&str| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        !matches!(stem, "tty" | "ttynull" | "ramoops" | "pstore")
    };
    let slow: Vec<String> = names
        .iter()
        .filter(is_slow)
        .map(|it| (*it).to_owned())
        .collect();
    if slow.is_empty() || level <= QUIET_LEVEL {
        ok()
    } else {
        bad(present(slow)).write(path, 1).boot("quiet").end()
    }
}

pub(super) fn audit(look: &mut Look<'_>) -> Looked {
    // `audit_enable` in kernel/audit.c: any other word enables it.
    let is_off = |word: &str| word == "0" || word.eq_ignore_ascii_case("off");
    if look.parameter("audit")?.is_some_and(is_off) {
        return ok();
    }
    let audit = match Audit::of(look.machine.root) {
        Ok(audit) => audit,
        Err(error) => return without_answer(look, &error),
    };
    look.saw(audit::QUESTION, &audit.to_text());
    if !audit.is_enabled {
        return ok();
    }
    // What is recorded is a matter of security, too.
    if audit.calls == 0 {
        return information().boot("audit=0").end();
    }
    let rules = Item::AuditRules { calls: audit.calls };
    information_that(present([rules]))
        .by_hand()
        .boot("audit=0")
        .end()
}

/// Root alone may ask for the rules; a program that loads them can be seen by everybody.
fn without_answer(look: &mut Look<'_>, error: &io::Error) -> Looked {
    if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) {
        return without("CONFIG_AUDIT");
    }
    let running = look.programs(&["auditd"])?;
    if !running.is_empty() {
        return information_that(present(running))
            .by_hand()
            .boot("audit=0")
            .end();
    }
    match error.raw_os_error() {
        None | Some(libc::ENOENT) => unknown(Unknown::NotRecorded(audit::QUESTION.to_owned())),
        Some(_) => look.unreadable(audit::QUESTION, error),
    }
}

pub(super) fn kdump(look: &mut Look<'_>) -> Looked {
    look.number("/sys/kernel/kexec_crash_loaded")?;
    information().end()
}

pub(super) fn perf_sampling(look: &mut Look<'_>) -> Looked {
    let names = [
        "perf",
        "perf-exec",
        "bpftrace",
        "trace-cmd",
        "strace",
        "gdb",
    ];
    let running = look.programs(&names)?;
    if running.is_empty() {
        ok()
    } else {
        bad(present(running)).by_hand().end()
    }
}

/// Timers of systemd and cron that load the disk.
pub(super) fn timer_jobs(look: &mut Look<'_>) -> Looked {
    let heavy = [
        "fstrim",
        "man-db",
        "apt-daily",
        "apt-daily-upgrade",
        "logrotate",
        "updatedb",
        "plocate-updatedb",
        "dnf-makecache",
        "fwupd-refresh",
        "e2scrub_all",
    ];
    let folder = "/etc/systemd/system/timers.target.wants";
    let mut found = look.programs(&["cron", "crond"])?;
    if look.machine.root.exists("/run/systemd/system") {
        match look.directory(folder) {
            Ok(names) => {
                let is_heavy = |name: &&String| {
                    let name = name.strip_suffix(".timer");
                    name.is_some_and(|name| heavy.contains(&name))
                };
                let timers: Vec<String> = names.iter().filter(is_heavy).cloned().collect();
                look.seen(folder, part(timers.len(), names.len(), None));
                found.extend(timers);
            }
            // No timer was ever enabled.
            Err(FindingState::NotApplicable { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    if found.is_empty() {
        ok()
    } else {
        information_that(present(found)).by_hand().end()
    }
}

pub(super) fn split_lock(look: &mut Look<'_>) -> Looked {
    let path = "/proc/sys/kernel/split_lock_mitigate";
    let mitigates = look.number(path)? != 0;
    // The file is there on every x86, and slows down only programs whose split locks raise #AC. With
    // `bus_lock_detect` alone (AMD's processors have no other) #DB is raised after the lock:
    // `split_lock_detect=` chooses what happens then too, and this file nothing (`split_lock_warn` and
    // `handle_bus_lock` in arch/x86/kernel/cpu/bus_lock.c; Documentation/arch/x86/buslock.rst).
    let cpuinfo = look.unshown("/proc/cpuinfo")?;
    let name = "split_lock_detect";
    if !cpuinfo.split_whitespace().any(|word| word == name) {
        look.seen("/proc/cpuinfo", none_of(&[name]));
        return without(name);
    }
    match look.parameter(name)? {
        Some("off") => return ok(),
        // `handle_user_split_lock`: it raises SIGBUS before it looks at the file.
        Some("fatal") => {
            let slowing = "split_lock_detect=warn".to_owned();
            return not_applicable(NotApplicable::NotRequested(slowing));
        }
        _ => {}
    }
    // `split_lock_init`: with it #DB is raised instead, and the file does nothing.
    let is_limited = look
        .parameter(name)?
        .is_some_and(|value| value.starts_with("ratelimit"));
    if is_limited {
        return bad(present(["split_lock_detect=ratelimit"]))
            .boot("split_lock_detect=off")
            .end();
    }
    if !mitigates {
        ok()
    } else {
        bad(expected(&["0"]))
            .write(path, 0)
            .boot("split_lock_detect=off")
            .end()
    }
}

pub(super) fn filesystems(look: &mut Look<'_>) -> Looked {
    let text = look.unshown("/proc/mounts")?;
    let remote = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let place = words.next()?;
        let kind = words.next()?;
        let is_slow = ["nfs", "cifs", "smb3", "fuse", "9p", "ceph", "afs"]
            .iter()
            .any(|it| {
                kind == *it
                    || kind
                        .strip_prefix(it)
                        .is_some_and(|rest| rest.starts_with(['.', '4', 'b']))
            });
        (is_slow && kind != "fusectl").then(|| Item::Mount {
            place: place.to_owned(),
            filesystem: kind.to_owned(),
        })
    };
    let found: Vec<Item> = text.lines().filter_map(remote).collect();
    let seen = part(found.len(), text.lines().count(), None);
    look.seen("/proc/mounts", seen);
    if found.is_empty() {
        ok()
    } else {
        information_that(present(found)).by_hand().end()
    }
}

pub(super) fn block_scheduler(look: &mut Look<'_>) -> Looked {
    let devices = look.directory("/sys/block")?;
    let mut any = false;
    for device in devices
        .iter()
        .filter(|name| !name.starts_with("loop"))
        .take(32)
    {
        any |= look
            .optional(&format!("/sys/block/{device}/queue/scheduler"))?
            .is_some();
    }
    if any {
        information().end()
    } else {
        without("/sys/block/*/queue/scheduler")
    }
}

pub(super) fn busy_poll(look: &mut Look<'_>) -> Looked {
    look.number("/proc/sys/net/core/busy_poll")?;
    look.optional("/proc/sys/net/core/busy_read")?;
    information().end()
}
