//! A command that a job starts and waits for.

use std::ffi::CString;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::check_returned;

/// The process of a command, while it runs; otherwise 0.
#[derive(Debug, Default)]
pub struct Started(Mutex<libc::pid_t>);

impl Started {
    fn set(&self, child: libc::pid_t) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = child;
    }

    /// Ends it.
    pub fn kill(&self) {
        let child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *child > 0 {
            // SAFETY: no memory is passed; no other process has the number before this one is waited for, and that
            // is not done before it is taken out under the lock.
            unsafe { libc::kill(*child, libc::SIGKILL) };
        }
    }
}

/// A command, ready to be started again and again. Its input is empty, its output is dropped.
pub struct Command {
    arguments: Vec<CString>,
    /// Pointers to the arguments, and a null pointer.
    pointers: Vec<*mut libc::c_char>,
    actions: Box<libc::posix_spawn_file_actions_t>,
    attributes: Box<libc::posix_spawnattr_t>,
    started: Arc<Started>,
}

// SAFETY: the pointers lead to the strings that it owns itself.
unsafe impl Send for Command {}

impl Command {
    /// Prepares a command: the program, looked up in `PATH`, and its arguments.
    ///
    /// # Errors
    /// An argument contains a zero byte, or there is none; ENOMEM.
    pub fn new(arguments: &[String]) -> io::Result<Self> {
        let strings = arguments.iter().map(|it| CString::new(it.as_bytes()));
        let arguments: Vec<CString> = strings.collect::<Result<_, _>>()?;
        if arguments.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let strings = arguments.iter().map(|it| it.as_ptr().cast_mut());
        let pointers = strings.chain([std::ptr::null_mut()]).collect();
        // SAFETY: all-zero bytes are a valid value of this C struct, until it is initialised.
        let mut actions: Box<libc::posix_spawn_file_actions_t> =
            Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: all-zero bytes are a valid value of this C struct too, until it is initialised.
        let mut attributes: Box<libc::posix_spawnattr_t> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: in its place, initialised once.
        check_returned(unsafe { libc::posix_spawn_file_actions_init(&raw mut *actions) })?;
        // SAFETY: in its place, initialised once.
        check_returned(unsafe { libc::posix_spawnattr_init(&raw mut *attributes) })?;
        for (descriptor, mode) in [
            (0, libc::O_RDONLY),
            (1, libc::O_WRONLY),
            (2, libc::O_WRONLY),
        ] {
            // SAFETY: initialised above; the path is a constant.
            check_returned(unsafe {
                libc::posix_spawn_file_actions_addopen(
                    &raw mut *actions,
                    descriptor,
                    c"/dev/null".as_ptr(),
                    mode,
                    0,
                )
            })?;
        }
        // The threads of tasks block all signals: a command would keep that.
        // SAFETY: an all-zero sigset_t is a valid, empty one.
        let none: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: initialised above; the set is a live local.
        check_returned(unsafe { libc::posix_spawnattr_setsigmask(&raw mut *attributes, &none) })?;
        // SAFETY: initialised above.
        check_returned(unsafe {
            libc::posix_spawnattr_setflags(
                &raw mut *attributes,
                libc::POSIX_SPAWN_SETSIGMASK as libc::c_short,
            )
        })?;
        Ok(Self {
            arguments,
            pointers,
            actions,
            attributes,
            started: Arc::default(),
        })
    }

    /// Its process.
    pub fn started(&self) -> Arc<Started> {
        Arc::clone(&self.started)
    }

    /// Starts it with the policy and the CPUs of the calling thread, and waits for its end.
    ///
    /// # Errors
    /// That of starting it; an error that names its exit status or signal.
    pub fn run(&self) -> io::Result<()> {
        let mut child = 0;
        // SAFETY: all was initialised by `new`, and the pointers end with a null pointer.
        check_returned(unsafe {
            libc::posix_spawnp(
                &mut child,
                self.arguments[0].as_ptr(),
                &*self.actions,
                &*self.attributes,
                self.pointers.as_ptr(),
                environ,
            )
        })?;
        self.started.set(child);
        let ended = await_end(child);
        self.started.set(0);
        ended?;
        let mut status = 0;
        // SAFETY: the status is a live local.
        uninterrupted(|| unsafe { libc::waitpid(child, &mut status, 0) })?;
        match status {
            0 => Ok(()),
            status if libc::WIFSIGNALED(status) => {
                let signal = libc::WTERMSIG(status);
                Err(io::Error::other(format!(
                    "the command was ended by signal {signal}"
                )))
            }
            status => {
                let code = libc::WEXITSTATUS(status);
                Err(io::Error::other(format!(
                    "the command ended with exit status {code}"
                )))
            }
        }
    }
}

/// Waits until a process has ended, and leaves it to be waited for.
fn await_end(child: libc::pid_t) -> io::Result<()> {
    let number = libc::id_t::try_from(child).unwrap_or_default();
    // SAFETY: all-zero bytes are a valid value of this C struct.
    let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the result is a live local.
    uninterrupted(|| unsafe {
        libc::waitid(
            libc::P_PID,
            number,
            &mut ended,
            libc::WEXITED | libc::WNOWAIT,
        )
    })
}

/// Calls again as long as a signal handler interrupts the call.
fn uninterrupted(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
    while call() == -1 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    Ok(())
}

impl Drop for Command {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut *self.actions) };
        // SAFETY: initialised by this function or its caller, and alive.
        unsafe { libc::posix_spawnattr_destroy(&raw mut *self.attributes) };
    }
}

unsafe extern "C" {
    /// The environment of this process, which nothing changes while tasks run.
    static environ: *const *mut libc::c_char;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_waited_for_and_its_failure_is_named() {
        let run = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
            Command::new(&words).and_then(|command| command.run())
        };
        run(&["true"]).unwrap();
        assert!(
            run(&["sh", "-c", "exit 3"])
                .unwrap_err()
                .to_string()
                .contains("status 3")
        );
        assert!(
            run(&["sh", "-c", "kill -9 $$"])
                .unwrap_err()
                .to_string()
                .contains("signal 9")
        );
        let missing = run(&["/no/such/program"]).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
        assert!(run(&[]).is_err());
        assert!(run(&["a\0b"]).is_err());
    }
}
