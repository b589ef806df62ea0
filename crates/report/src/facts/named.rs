//! The words for what mostly has a name.

use punctual_record::{Hypervisor, KernelCall, RunSource};

/// What a thread slept in, or was in.
#[must_use]
pub fn call(call: &KernelCall) -> String {
    match call {
        KernelCall::Name(name) => name.clone(),
        KernelCall::Number(number) => format!("system call {number}"),
        KernelCall::FaultOrInterrupt {} => "page fault or interrupt".to_owned(),
    }
}

/// A hypervisor.
#[must_use]
pub fn hypervisor(hypervisor: &Hypervisor) -> String {
    let (signature, firmware) = match hypervisor {
        Hypervisor::Name(name) => return name.clone(),
        Hypervisor::Unknown {
            signature,
            firmware,
        } => (signature, firmware),
    };
    let mut words = "unknown".to_owned();
    if let Some(signature) = signature {
        words += &format!(": {signature}");
    }
    if let Some(firmware) = firmware {
        words += &format!(" ({firmware})");
    }
    words
}

/// What was measured.
#[must_use]
pub fn source(source: &RunSource) -> String {
    match source {
        RunSource::Name(name) => name.clone(),
        RunSource::Tasks { of } => format!("the task set {of}"),
        RunSource::Path { over, to } => format!("{} to {to}", over.name()),
        RunSource::Watch { of: Some(name) } => format!("watch of {name}"),
        RunSource::Watch { of: None } => "watch of the system".to_owned(),
    }
}
