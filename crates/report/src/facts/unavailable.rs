//! Why tracing, or a mark, is not available, and what to do.

use punctual_record::{ProbeRefusal, TracingPart, TracingStep, Unavailable};

/// The reason and the fix, in one line.
#[must_use]
pub fn unavailable(why: &Unavailable) -> String {
    format!("{}; {}", reason(why), remedy(why))
}

fn reason(why: &Unavailable) -> String {
    match why {
        Unavailable::BuiltWithout => {
            "this punctual was built without tracing (--no-default-features)".to_owned()
        }
        Unavailable::Architecture => {
            "punctual does not know the interrupts of this processor architecture".to_owned()
        }
        Unavailable::NoTypes { error } => {
            format!("the kernel does not describe its types (/sys/kernel/btf/vmlinux: {error})")
        }
        Unavailable::NoCapabilities { bpf, perfmon, .. } => {
            let names = match (bpf, perfmon) {
                (true, false) => "CAP_BPF",
                (false, true) => "CAP_PERFMON",
                _ => "CAP_BPF and CAP_PERFMON",
            };
            format!("no {names}")
        }
        Unavailable::Refused { step, error } => {
            format!("the kernel refused to {}: {error}", action(step))
        }
        Unavailable::Incomplete { part } => {
            format!("this build of punctual lacks {part} in its BPF programs")
        }
        Unavailable::NoThread { error } => format!("no thread for the tracing: {error}"),
        Unavailable::NoUprobes => "this kernel has no uprobes \
                                   (/sys/bus/event_source/devices/uprobe/type)"
            .to_owned(),
        Unavailable::NoProbe { offset, refusal } => {
            let why = match refusal {
                ProbeRefusal::Instruction => {
                    "the kernel does not support a probe on that instruction".to_owned()
                }
                ProbeRefusal::Gone => "the program has ended, or its file was removed".to_owned(),
                ProbeRefusal::Forbidden { error } | ProbeRefusal::Other { error } => {
                    format!("the kernel refused ({error})")
                }
            };
            format!("no probe at +{offset:#x}: {why}")
        }
    }
}

fn action(step: &TracingStep) -> String {
    match step {
        TracingStep::ReadTypes => "let its types be read".to_owned(),
        TracingStep::Load { programs } => {
            let of = match programs {
                TracingPart::Recorder => "the recorder",
                TracingPart::Watch => "the watch",
                TracingPart::Marks => "the marks",
            };
            format!("load the programs of {of}")
        }
        TracingStep::Attach { tracepoint } => format!("trace {tracepoint}"),
        TracingStep::MapMemory { map } => format!("map the memory of {map}"),
        TracingStep::AddThread => "add a thread to those that are traced".to_owned(),
        TracingStep::ThreadIds => {
            "distinguish the threads of this container from the host's".to_owned()
        }
        TracingStep::MarkPath => "accept the path of the program".to_owned(),
    }
}

/// What to do.
fn remedy(why: &Unavailable) -> &'static str {
    match why {
        Unavailable::BuiltWithout | Unavailable::Incomplete { .. } => "rebuild it: make",
        Unavailable::Architecture => "tracing needs an x86-64 or an arm64 machine",
        Unavailable::NoTypes { .. } => {
            "tracing needs a kernel of 5.15 or later with CONFIG_DEBUG_INFO_BTF=y, as \
             distributions build it, and /sys mounted"
        }
        // If root lacks them, they were removed: neither being root nor a file's capabilities
        // restore them.
        Unavailable::NoCapabilities { root: true, .. } => {
            "root lacks them here, as in a container: start it with `--cap-add sys_admin \
             --cap-add syslog` (a container's seccomp filter may refuse BPF with less), or run \
             punctual outside of it"
        }
        Unavailable::NoCapabilities { root: false, .. } => {
            "run as root, or on the program, in this order: chgrp realtime, chmod 750, setcap \
             cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock,cap_syslog+ep (without the group any \
             user could run any program at FIFO 99 with it)"
        }
        Unavailable::Refused { .. } => {
            "tracing needs a kernel of 5.15 or later that permits BPF for this user (lockdown, \
             containers and seccomp may forbid it)"
        }
        Unavailable::NoThread { .. } => "free some memory",
        Unavailable::NoUprobes => {
            "marks need a kernel with CONFIG_UPROBE_EVENTS=y, as distributions build it"
        }
        Unavailable::NoProbe { refusal, .. } => match refusal {
            ProbeRefusal::Instruction => "mark another place",
            ProbeRefusal::Gone => "start the program again",
            ProbeRefusal::Forbidden { .. } => {
                "marks need root, or CAP_PERFMON and CAP_BPF, and no lockdown"
            }
            ProbeRefusal::Other { .. } => {
                "marks need a kernel of 5.15 or later with CONFIG_UPROBE_EVENTS=y"
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_without_capabilities_is_not_advised_to_run_as_root() {
        let lacking =
            |bpf, perfmon, root| unavailable(&Unavailable::NoCapabilities { bpf, perfmon, root });
        let of_root = lacking(true, true, true);
        assert!(of_root.starts_with("no CAP_BPF and CAP_PERFMON; root lacks them here"));
        assert!(of_root.contains("--cap-add sys_admin") && !of_root.contains("run as root"));
        assert!(lacking(true, false, false).starts_with("no CAP_BPF; run as root"));
        assert!(lacking(false, true, false).starts_with("no CAP_PERFMON; run as root"));
    }

    #[test]
    fn every_reason_is_one_line_with_its_figures_and_a_fix() {
        let text = |it: &str| it.to_owned();
        let error = || text("the-error");
        let step = |step| Unavailable::Refused {
            step,
            error: error(),
        };
        let probe = |refusal| Unavailable::NoProbe {
            offset: 0xabc,
            refusal,
        };
        let all = [
            (Unavailable::BuiltWithout, "without tracing"),
            (Unavailable::Architecture, "architecture"),
            (Unavailable::NoTypes { error: error() }, "the-error"),
            (step(TracingStep::ReadTypes), "types"),
            (
                step(TracingStep::Load {
                    programs: TracingPart::Recorder,
                }),
                "recorder: the-error",
            ),
            (
                step(TracingStep::Load {
                    programs: TracingPart::Watch,
                }),
                "watch: the-error",
            ),
            (
                step(TracingStep::Load {
                    programs: TracingPart::Marks,
                }),
                "marks: the-error",
            ),
            (
                step(TracingStep::Attach {
                    tracepoint: text("sched_switch"),
                }),
                "trace sched_switch: the-error",
            ),
            (
                step(TracingStep::MapMemory { map: text("ring") }),
                "ring: the-error",
            ),
            (step(TracingStep::AddThread), "thread"),
            (step(TracingStep::ThreadIds), "container"),
            (step(TracingStep::MarkPath), "path"),
            (Unavailable::Incomplete { part: text("ring") }, "lacks ring"),
            (Unavailable::NoThread { error: error() }, "the-error"),
            (Unavailable::NoUprobes, "uprobes"),
            (probe(ProbeRefusal::Instruction), "+0xabc"),
            (probe(ProbeRefusal::Gone), "has ended"),
            (
                probe(ProbeRefusal::Forbidden { error: error() }),
                "the-error",
            ),
            (probe(ProbeRefusal::Other { error: error() }), "the-error"),
        ];
        for (why, wanted) in all {
            let text = unavailable(&why);
            assert!(text.contains(wanted), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.contains("  ") && !text.contains(['{', '"']), "{text}");
            let (reason, fix) = text.split_once("; ").expect("a fix");
            assert!(!reason.is_empty() && !fix.is_empty());
        }
    }
}
