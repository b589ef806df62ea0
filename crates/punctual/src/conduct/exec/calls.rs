//! Code of the user's own that jobs call: functions of shared objects.
//!
//! This program is one static file and can't load an object. So another process does: a shell, into
//! which the library of `punctual run` is loaded, and which never becomes one. All functions of an object
//! run in one process, so that they share its memory, each on a thread of its own. The task's thread
//! asks through a page of shared memory, and waits. A function that crashes ends the tasks that call
//! functions of its object, not the program that records.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use punctual_rt::affinity;
use punctual_rt::memory::Disturbances;
use punctual_rt::sys::shared::{LINE, LINES, SharedPage};
use punctual_rt::sys::task;

use crate::launch::Library;
use punctual_exec::{Call, Calls, Used};

/// What hosts the functions: any program with a dynamic loader.
const HOST: &str = "/bin/sh";
/// How long an object may take to load, or a function to be found.
const LOADED_WITHIN: Duration = Duration::from_secs(30);
/// How often the task looks whether the process still lives.
const LOOK_NS: u64 = 100_000_000;

// The words of a line, as in the process: crates/preload/src/step.rs. Line 0 asks for functions.
const REQUEST: usize = 0;
const REPLY: usize = 1;
const RESULT: usize = 2;
/// Line 0: whether the object was loaded (1), or why not is in the text (2).
const STATE: usize = 3;
/// Line 0: the line of the function that is asked for.
const WANTED: usize = 4;
/// Line 0: the line of the function that crashed.
const CRASHED: usize = 5;
/// Other lines: the thread that calls the function.
const THREAD: usize = 3;

/// Finds functions of shared objects.
#[derive(Default)]
pub struct Launched {
    library: Option<Library>,
    hosts: Vec<Arc<Host>>,
}

impl Calls for Launched {
    fn find(&mut self, path: &Path, function: &str) -> io::Result<Box<dyn Call>> {
        if function.is_empty() || function.contains('\0') {
            return Err(io::Error::other(format!(
                "'{function}' is no name of a function"
            )));
        }
        // The loader looks for a name without a folder among the system's libraries.
        let path = path
            .canonicalize()
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        let known = self.hosts.iter().find(|host| host.path == path);
        let host = match known {
            Some(host) => Arc::clone(host),
            None => {
                let library = match self.library.take() {
                    Some(library) => library,
                    None => Library::find().map_err(|why| io::Error::other(why.to_string()))?,
                };
                let host = Host::start(path, &library);
                self.library = Some(library);
                let host = Arc::new(host?);
                self.hosts.push(Arc::clone(&host));
                host
            }
        };
        let line = host.find(function)?;
        Ok(Box::new(Function {
            thread: host.word(line, THREAD).load(Ordering::Acquire),
            host,
            line,
            requests: 0,
        }))
    }
}

/// The process of an object.
struct Host {
    path: PathBuf,
    page: SharedPage,
    child: Mutex<Child>,
    /// Functions that were found, by line, from 1.
    found: Mutex<Vec<String>>,
}

impl Host {
    fn start(path: PathBuf, library: &Library) -> io::Result<Self> {
        let page = SharedPage::new()?;
        let child = Command::new(HOST)
            .args(["-c", ":"])
            .env("LD_PRELOAD", library.own_path())
            .env(
                "PUNCTUAL_STEP",
                format!("{}:{}", page.number(), path.display()),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("{HOST}: {error}")));
        page.close_on_exec()?;
        let host = Self {
            path,
            page,
            child: Mutex::new(child?),
            found: Mutex::new(Vec::new()),
        };
        match host.await_change(STATE, 0)? {
            1 => Ok(host),
            _ => Err(io::Error::other(host.page.text())),
        }
    }

    fn word(&self, line: usize, word: usize) -> &std::sync::atomic::AtomicU32 {
        self.page.word(line * LINE + word)
    }

    fn status(&self) -> io::Result<Option<ExitStatus>> {
        let child = self.child.lock();
        child.unwrap_or_else(PoisonError::into_inner).try_wait()
    }

    /// Waits until a word of line 0 is another one, and returns it.
    fn await_change(&self, word: usize, from: u32) -> io::Result<u32> {
        let patience = Instant::now() + LOADED_WITHIN;
        loop {
            let now = self.word(0, word).load(Ordering::Acquire);
            if now != from {
                return Ok(now);
            }
            if let Some(status) = self.status()? {
                // It may have said why just before.
                let now = self.word(0, word).load(Ordering::Acquire);
                if now != from {
                    return Ok(now);
                }
                return Err(io::Error::other(format!(
                    "{}: {HOST} ended as it loaded the object ({status}): does the object end it \
                     when it is loaded? {HOST} must be a dynamically linked program",
                    self.path.display()
                )));
            }
            if Instant::now() > patience {
                return Err(io::Error::other("it was not loaded within 30 s"));
            }
            self.page.wait(word, from, LOOK_NS);
        }
    }

    /// Has the process find a function, and returns its line.
    fn find(&self, function: &str) -> io::Result<usize> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let line = found.len() + 1;
        if line >= LINES {
            return Err(io::Error::other(format!(
                "more than {} calls of functions of {}",
                LINES - 1,
                self.path.display()
            )));
        }
        self.page.set_text(function.as_bytes());
        self.word(0, WANTED).store(line as u32, Ordering::Relaxed);
        let asked = self.word(0, REPLY).load(Ordering::Relaxed);
        self.word(0, REQUEST)
            .store(asked.wrapping_add(1), Ordering::Release);
        self.page.wake(REQUEST);
        self.await_change(REPLY, asked)?;
        match self.word(0, RESULT).load(Ordering::Relaxed) {
            1 => {
                found.push(function.to_owned());
                Ok(line)
            }
            _ => Err(io::Error::other(self.page.text())),
        }
    }

    /// Why a function did not return: the process has ended.
    #[cold]
    fn ended(&self, line: usize, status: ExitStatus) -> io::Error {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |line: usize| line.checked_sub(1).and_then(|at| found.get(at));
        let own = name(line).map_or("it", String::as_str);
        let object = self.path.display();
        let crashed = self.word(0, CRASHED).load(Ordering::Acquire) as usize;
        io::Error::other(match name(crashed) {
            Some(_) if crashed == line => {
                format!("{own} of {object}: it ended its process: {status}")
            }
            Some(other) => {
                format!("{own} of {object}: {other} ended the process of both: {status}")
            }
            None => format!("{own} of {object}: its process ended: {status}"),
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A function that a thread of another process calls.
struct Function {
    host: Arc<Host>,
    line: usize,
    thread: u32,
    requests: u32,
}

impl Function {
    fn tid(&self) -> libc::pid_t {
        libc::pid_t::try_from(self.thread).unwrap_or(0)
    }
}

impl Call for Function {
    /// Gives the function's thread what the calling thread has.
    fn prepare(&mut self) -> io::Result<()> {
        affinity::set(self.tid(), &affinity::get(0)?)?;
        let own = task::scheduling(0)?;
        if own.policy == libc::SCHED_DEADLINE as u32 {
            return Err(io::Error::other(
                "a SCHED_DEADLINE task can't call a shared object: its reservation isn't that of \
                 the process that does: give the task a priority instead",
            ));
        }
        task::set_scheduling(self.tid(), &own)
    }

    fn call(&mut self) -> io::Result<()> {
        let (host, line) = (&self.host, self.line);
        self.requests = self.requests.wrapping_add(1);
        host.word(line, REQUEST)
            .store(self.requests, Ordering::Release);
        host.page.wake(line * LINE + REQUEST);
        loop {
            let reply = host.word(line, REPLY).load(Ordering::Acquire);
            if reply == self.requests {
                break;
            }
            host.page.wait(line * LINE + REPLY, reply, LOOK_NS);
            if host.word(line, REPLY).load(Ordering::Acquire) != self.requests
                && let Some(status) = host.status()?
            {
                return Err(host.ended(line, status));
            }
        }
        match host.word(line, RESULT).load(Ordering::Relaxed) as i32 {
            0 => Ok(()),
            result => Err(io::Error::other(format!("it returned {result}"))),
        }
    }

    fn thread(&self) -> Option<u32> {
        Some(self.thread)
    }

    fn used(&self) -> Used {
        let child = self.host.child.lock();
        let pid = child.unwrap_or_else(PoisonError::into_inner).id();
        let of =
            |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{}/{file}", self.thread));
        // Of a process that has ended nothing is known.
        let stat = of("stat").unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let number = |text: Option<&str>| text.and_then(|it| it.parse().ok()).unwrap_or(0);
        // The state is field 3 of proc_pid_stat(5).
        let field = |field: usize| number(after_name.split_whitespace().nth(field - 3));
        let status = of("status").unwrap_or_default();
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        let times = of("schedstat").unwrap_or_default();
        Used {
            cpu_ns: number(times.split_whitespace().next()),
            disturbances: Disturbances {
                minor_faults: field(10),
                major_faults: field(12),
                preemptions: number(switches.map(str::trim)),
            },
        }
    }
}
