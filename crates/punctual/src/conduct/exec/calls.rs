//! Code of the user's own that jobs call: functions of shared objects.
//!
//! This program is one static file and can't load an object. So another process does: a shell, into
//! which the library of `punctual run` is loaded, and which never becomes one. The task's thread asks
//! it through a page of shared memory, and waits. A function that crashes ends its task, not the set.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use punctual_rt::affinity;
use punctual_rt::sys::shared::SharedPage;
use punctual_rt::sys::task;

use crate::launch::Library;
use punctual_exec::{Call, Calls};

/// What hosts the function: any program with a dynamic loader.
const HOST: &str = "/bin/sh";
/// How long an object may take to load.
const LOADED_WITHIN: Duration = Duration::from_secs(30);
/// How often the task looks whether the process still lives.
const LOOK_NS: u64 = 100_000_000;

const REQUEST: usize = 0;
const REPLY: usize = 1;
const RESULT: usize = 2;
const STATE: usize = 3;

/// Finds functions of shared objects.
#[derive(Default)]
pub struct Launched {
    library: Option<Library>,
}

impl Calls for Launched {
    fn find(&mut self, path: &Path, function: &str) -> io::Result<Box<dyn Call>> {
        if function.is_empty() || function.contains([':', '\0']) {
            return Err(io::Error::other(format!(
                "'{function}' is no name of a function"
            )));
        }
        // The loader looks for a name without a folder among the system's libraries.
        let path = path
            .canonicalize()
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        let library = match self.library.take() {
            Some(library) => library,
            None => Library::find().map_err(|why| io::Error::other(why.to_string()))?,
        };
        let page = SharedPage::new()?;
        let what = format!("{}:{function}:{}", page.number(), path.display());
        let child = Command::new(HOST)
            .args(["-c", ":"])
            .env("LD_PRELOAD", library.own_path())
            .env("PUNCTUAL_STEP", what)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("{HOST}: {error}")));
        self.library = Some(library);
        page.close_on_exec()?;
        let mut step = Step {
            page,
            child: child?,
            requests: 0,
            is_placed: false,
        };
        step.await_loaded()?;
        Ok(Box::new(step))
    }
}

/// A function that another process calls.
struct Step {
    page: SharedPage,
    child: Child,
    requests: u32,
    /// Whether the process has the policy and the CPUs of the task's thread.
    is_placed: bool,
}

impl Step {
    fn await_loaded(&mut self) -> io::Result<()> {
        let patience = Instant::now() + LOADED_WITHIN;
        loop {
            match self.page.word(STATE).load(Ordering::Acquire) {
                1 => return Ok(()),
                2 => return Err(io::Error::other(self.page.text())),
                _ => {}
            }
            if let Some(status) = self.child.try_wait()? {
                // It may have said why just before.
                return Err(match self.page.word(STATE).load(Ordering::Acquire) {
                    2 => io::Error::other(self.page.text()),
                    _ => io::Error::other(format!(
                        "{HOST} can't host it ({status}): it must be a dynamically linked program"
                    )),
                });
            }
            if Instant::now() > patience {
                return Err(io::Error::other("it was not loaded within 30 s"));
            }
            self.page.wait(STATE, 0, LOOK_NS);
        }
    }

    /// Gives the process what the calling thread has.
    fn place(&mut self) -> io::Result<()> {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap_or(0);
        let cpus = affinity::get(0)?;
        affinity::set(pid, &cpus)?;
        let own = task::scheduling(0)?;
        if own.policy == libc::SCHED_DEADLINE as u32 {
            return Err(io::Error::other(
                "a SCHED_DEADLINE task can't call a shared object: its reservation isn't that of \
                 the process that does: give the task a priority instead",
            ));
        }
        task::set_scheduling(pid, &own)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Call for Step {
    fn call(&mut self) -> io::Result<()> {
        if !self.is_placed {
            self.place()?;
        }
        self.requests = self.requests.wrapping_add(1);
        self.page
            .word(REQUEST)
            .store(self.requests, Ordering::Release);
        self.page.wake(REQUEST);
        loop {
            let reply = self.page.word(REPLY).load(Ordering::Acquire);
            if reply == self.requests {
                break;
            }
            self.page.wait(REPLY, reply, LOOK_NS);
            if self.page.word(REPLY).load(Ordering::Acquire) != self.requests
                && let Some(status) = self.child.try_wait()?
            {
                return Err(io::Error::other(format!("it ended its process: {status}")));
            }
        }
        match self.page.word(RESULT).load(Ordering::Relaxed) as i32 {
            0 => Ok(()),
            result => Err(io::Error::other(format!("it returned {result}"))),
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
