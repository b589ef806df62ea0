//! What to do about punctual's own load: it is there to stand for other programs, so it is not to be
//! moved away. What in real life does the same, and what helps against it.

use super::accused::Accused;
use punctual_record::Run;
use punctual_record::explanation::Cause;
use punctual_record::remedy::is_own;

/// A kind of load by its thread's name, what does the same in real life, and what helps.
const KINDS: [(&str, &str, &str); 17] = [
    (
        "hackbench",
        "servers and shells that pass messages through pipes and sockets",
        "",
    ),
    (
        "mmap",
        "programs that map, unmap and protect much memory: allocators, garbage collectors, databases",
        "",
    ),
    (
        "fork",
        "builds, shells and web servers that start processes",
        "",
    ),
    (
        "files",
        "package managers, loggers and databases that write files",
        "",
    ),
    (
        "net",
        "any network traffic",
        "; threads for receiving (threadirqs on the kernel's command line) can be given a priority",
    ),
    ("cpu", "any program that computes", ""),
    (
        "timers",
        "programs with many timers: browsers, runtimes, media",
        "",
    ),
    ("poll", "servers that poll thousands of descriptors", ""),
    ("kill", "service managers that signal all processes", ""),
    ("proc", "monitors that read /proc: top, ps, exporters", ""),
    (
        "truncate",
        "programs that delete or truncate large files",
        "",
    ),
    ("memory", "programs that use all of the memory", ""),
    ("exit", "large programs that end", ""),
    ("munmap", "programs that give much memory back at once", ""),
    (
        "mprotect",
        "programs that protect much memory: garbage collectors",
        "",
    ),
    ("hugepages", "programs with transparent huge pages", ""),
    (
        "vmread",
        "debuggers and profilers that read another program's memory",
        "",
    ),
];

/// Advice for a cause that is a thread of our own load; nothing where it is none.
pub(super) fn advice(cause: &Cause, accused: &Accused<'_>, run: &Run) -> Option<String> {
    let (task, above) = match cause {
        Cause::PreemptOff { task, .. }
        | Cause::IrqsOff { task, .. }
        | Cause::LateInterrupt { task } => (task, false),
        Cause::Thread { task, .. } | Cause::FairShare { task } => (task, true),
        _ => return None,
    };
    let kind = task.strip_prefix("load-")?;
    let (_, same, more) = KINDS.iter().find(|(name, ..)| kind == *name)?;
    // A user's program may have that name. Most processes of a load have ended soon.
    let ran = run.loads.iter().any(|load| load.name == kind);
    if !(is_own(run, cause) || ran && !accused.can_be_moved()) {
        return None;
    }
    let real_time = run.system.kernel.preemption.starts_with("rt");
    let helps = match (above, real_time) {
        (true, _) => "a real-time priority of yours above theirs keeps them out of the way",
        (false, true) => {
            "this kernel is a PREEMPT_RT one already: keep such programs off these CPUs"
        }
        (false, false) => {
            "a PREEMPT_RT kernel preempts it much sooner (preempt=full some of it), or keep such \
             programs off these CPUs"
        }
    };
    Some(format!(
        "punctual's own load, which stands for {same}: leave it running; {helps}{more}"
    ))
}
