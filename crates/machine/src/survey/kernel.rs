//! The kernel and how preemptible it is.
#![expect(unsafe_code, reason = "uname")]

use crate::config::Config;
use crate::root::Reader;
use punctual_record::UnreadReason;
use punctual_record::system::Kernel;

/// Reads the kernel.
pub(super) fn read(reader: &mut Reader<'_>) -> Kernel {
    let release = reader
        .text("/proc/sys/kernel/osrelease")
        .unwrap_or_default();
    let version = reader.text("/proc/sys/kernel/version").unwrap_or_default();
    let command_line = reader.text("/proc/cmdline").unwrap_or_default();
    let (preemption, preemption_source) = preemption(reader, &release, &version, &command_line);
    Kernel {
        machine: machine(reader),
        preemption,
        preemption_source,
        tainted: reader.number("/proc/sys/kernel/tainted"),
        release,
        version,
        command_line,
    }
}

/// `uname -m`: a file since 6.1, the system call before.
fn machine(reader: &mut Reader<'_>) -> String {
    if let Some(machine) = reader.optional("/proc/sys/kernel/arch") {
        return machine;
    }
    if !reader.root.is_live() {
        return String::new();
    }
    // SAFETY: utsname is plain arrays of characters, for which zeros are valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a valid utsname that outlives the call.
    if unsafe { libc::uname(&raw mut name) } != 0 {
        reader.note_error("uname", &std::io::Error::last_os_error());
        return String::new();
    }
    // The sign of c_char differs between architectures.
    let bytes: Vec<u8> = name
        .machine
        .iter()
        .map(|c| c.to_ne_bytes()[0])
        .take_while(|c| *c != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The preemption model and where it was read.
///
/// A kernel built with PREEMPT_DYNAMIC has all models and chooses at boot or
/// in debugfs; `uname -v` distinguishes the others, except `none` from `voluntary`,
/// which only the kernel's configuration shows.
fn preemption(
    reader: &mut Reader<'_>,
    release: &str,
    version: &str,
    command_line: &str,
) -> (String, String) {
    let found = |model: &str, source: &str| (model.to_owned(), source.to_owned());
    if reader.optional("/sys/kernel/realtime").as_deref() == Some("1") {
        return found("rt", "/sys/kernel/realtime");
    }
    let words = || version.split_whitespace();
    if words().any(|w| w == "PREEMPT_RT") || version.contains("PREEMPT RT") {
        return found("rt", "uname -v");
    }
    let dynamic = words().any(|w| w == "PREEMPT_DYNAMIC");
    if dynamic {
        let debugfs = "/sys/kernel/debug/sched/preempt";
        // A failure is not noted: debugfs is often not mounted, or not accessible.
        if let Some(model) = reader
            .root
            .text(debugfs)
            .ok()
            .as_deref()
            .and_then(bracketed)
        {
            return found(model, debugfs);
        }
        let asked = command_line
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("preempt="))
            .rfind(|model| matches!(*model, "none" | "voluntary" | "full" | "lazy"));
        if let Some(model) = asked {
            return found(model, "kernel command line");
        }
    } else if words().any(|w| w == "PREEMPT_LAZY") {
        return found("lazy", "uname -v");
    } else if words().any(|w| w == "PREEMPT") {
        return found("full", "uname -v");
    }
    let (config, damaged) = Config::read(reader.root, release);
    if let Some(error) = damaged {
        reader.note_error(Config::PACKED, &error);
    }
    match config {
        Some(config) => match config.preemption() {
            Some((_, model)) => found(model, &config.source),
            None => {
                reader.note(&config.source, UnreadReason::NoPreemptionModel);
                found("unknown", &config.source)
            }
        },
        None => {
            reader.note("", UnreadReason::NoPreemptionSource);
            found("unknown", "uname -v")
        }
    }
}

/// The model in brackets: `none voluntary (full) lazy`.
fn bracketed(text: &str) -> Option<&str> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix(['(', '['])?.strip_suffix([')', ']']))
        .filter(|model| matches!(*model, "none" | "voluntary" | "full" | "lazy"))
}
