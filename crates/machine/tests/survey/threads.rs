//! Threads of the tests themselves, and what other tools say.
#![allow(dead_code, reason = "each file of tests uses what it needs")]

use std::process::Command;
use std::sync::mpsc;

/// What a command of the shell prints.
pub fn output(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The calling thread.
pub fn own_tid() -> i32 {
    // SAFETY: gettid takes no argument and never fails.
    unsafe { libc::gettid() }
}

/// Sets the calling thread's policy; returns the error number if it is refused.
pub fn set_fifo(priority: i32) -> Result<(), i32> {
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `parameter` is valid and outlives the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// Sets a thread's affinity; returns the error number if it is refused.
pub fn set_affinity(tid: i32, cpus: &[usize]) -> Result<(), i32> {
    let mut mask = [0_u64; 16];
    for cpu in cpus {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: `mask` has the given length and outlives the call.
    let result = unsafe {
        libc::sched_setaffinity(
            tid,
            size_of_val(&mask),
            mask.as_ptr().cast::<libc::cpu_set_t>(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// A thread pinned to a CPU, which sleeps until this is dropped.
pub struct Sleeper {
    /// Its number.
    pub tid: i32,
    stop: mpsc::Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sleeper {
    /// A thread pinned to this CPU.
    pub fn pinned(cpu: usize) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            set_affinity(0, &[cpu]).unwrap();
            tell.send(own_tid()).unwrap();
            let _ = stopped.recv();
        });
        Self {
            tid: told.recv().unwrap(),
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        let _ = self.thread.take().unwrap().join();
    }
}
