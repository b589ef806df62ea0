//! The functions of a shared object that tasks of `punctual exec` call: this process, which has done
//! nothing of its own yet, loads the object, and calls each function on a thread of its own whenever its
//! task asks for it.
//!
//! The tasks and this process share a page. In line 0 the tool asks for functions by their names; each of
//! the other lines belongs to one function.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use punctual_rt::sys::shared::{LINE, LINES, SharedPage};
use punctual_rt::sys::task;
use punctual_rt::thread::Builder;

// The words of a line, as in the tool: crates/punctual/src/conduct/exec/calls.rs.
/// Requests so far.
const REQUEST: usize = 0;
/// Those that were answered.
const REPLY: usize = 1;
/// Line 0: whether the function was found (1), or why not is in the text (2). Else the function's own.
const RESULT: usize = 2;
/// Line 0: whether the object was loaded (1), or why not is in the text (2).
const STATE: usize = 3;
/// Line 0: the line of the function that is asked for.
const WANTED: usize = 4;
/// Line 0: the line of the function that crashed.
const CRASHED: usize = 5;
/// Other lines: the thread that calls the function.
const THREAD: usize = 3;

/// `FD:PATH` in the environment.
const VARIABLE: &CStr = c"PUNCTUAL_STEP";

/// Longer than any wait: it begins again.
const LONG_NS: u64 = 1_000_000_000;
/// The stack of a function's thread, prefaulted.
const STACK_BYTES: usize = 1 << 20;

/// The page, for the handler of crashes.
static PAGE: AtomicPtr<SharedPage> = AtomicPtr::new(std::ptr::null_mut());

/// Serves for ever if this process is one for tasks; else it returns.
pub(crate) fn serve_if_asked() {
    // SAFETY: the name is a C string; nothing changes the environment before `main`.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: a string of the environment, which lives as long as the process.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes_with_nul();
    // What the object starts isn't one for tasks.
    // SAFETY: the name is a C string, and this is the only thread.
    unsafe { libc::unsetenv(VARIABLE.as_ptr()) };
    let mut parts = value.splitn(2, |byte| *byte == b':');
    let number = parts
        .next()
        .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let (Some(number), Some(path)) = (number, parts.next()) else {
        end(2);
    };
    match SharedPage::inherited(number) {
        Ok(page) => serve(Box::leak(Box::new(page)), path),
        Err(_) => end(2),
    }
}

fn end(code: c_int) -> ! {
    // SAFETY: ends the process without any of its handlers, none of which is set up.
    unsafe { libc::_exit(code) }
}

/// A function that a task calls.
type Step = extern "C" fn(*mut c_void) -> c_int;

fn word(page: &SharedPage, line: usize, word: usize) -> &AtomicU32 {
    page.word(line * LINE + word)
}

fn serve(page: &'static SharedPage, path: &[u8]) -> ! {
    // The parent may be gone already: then it has another one.
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: the path ends with a zero byte: it is the end of a C string.
    let object = unsafe { libc::dlopen(path.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if object.is_null() {
        refuse(page);
        word(page, 0, STATE).store(2, Ordering::Release);
        page.wake(STATE);
        end(1);
    }
    tell_of_crashes(page);
    // Without the right to lock memory the first access to each page faults.
    // SAFETY: takes a number.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    word(page, 0, STATE).store(1, Ordering::Release);
    page.wake(STATE);
    loop {
        let answered = word(page, 0, REPLY).load(Ordering::Relaxed);
        let asked = word(page, 0, REQUEST).load(Ordering::Acquire);
        if asked == answered {
            page.wait(REQUEST, answered, LONG_NS);
            continue;
        }
        let line = word(page, 0, WANTED).load(Ordering::Relaxed) as usize;
        let result = match find(page, object, line) {
            true => 1,
            false => 2,
        };
        word(page, 0, RESULT).store(result, Ordering::Relaxed);
        word(page, 0, REPLY).store(asked, Ordering::Release);
        page.wake(REPLY);
    }
}

/// Finds the function that is asked for in the text, and starts its thread; else the text says why
/// not.
fn find(page: &'static SharedPage, object: *mut c_void, line: usize) -> bool {
    let mut name = page.text().into_bytes();
    name.push(0);
    // SAFETY: the object was loaded, and the name ends with a zero byte.
    let address = unsafe { libc::dlsym(object, name.as_ptr().cast()) };
    if address.is_null() || line == 0 || line >= LINES {
        refuse(page);
        return false;
    }
    // SAFETY: the user says that the function is of this type.
    let step: Step = unsafe { std::mem::transmute(address) };
    name.pop();
    let builder = Builder::new().name_bytes(&name).stack_size(STACK_BYTES);
    match builder.spawn(move |setup| call(page, line, step, setup.tid)) {
        Ok(thread) => {
            thread.detach();
            while word(page, line, THREAD).load(Ordering::Acquire) == 0 {
                page.wait(line * LINE + THREAD, 0, LONG_NS);
            }
            true
        }
        Err(error) => {
            page.set_text(format!("no thread for it: {error}").as_bytes());
            false
        }
    }
}

/// Calls a function whenever its task asks for it.
fn call(page: &SharedPage, line: usize, step: Step, tid: libc::pid_t) {
    let mut place: *mut c_void = std::ptr::null_mut();
    word(page, line, THREAD).store(tid as u32, Ordering::Release);
    page.wake(line * LINE + THREAD);
    let mut served = 0;
    loop {
        let asked = word(page, line, REQUEST).load(Ordering::Acquire);
        if asked == served {
            page.wait(line * LINE + REQUEST, served, LONG_NS);
            continue;
        }
        let result = step((&raw mut place).cast());
        word(page, line, RESULT).store(result as u32, Ordering::Relaxed);
        served = asked;
        word(page, line, REPLY).store(served, Ordering::Release);
        page.wake(line * LINE + REPLY);
    }
}

/// Says what the loader says.
fn refuse(page: &SharedPage) {
    // SAFETY: takes nothing.
    let why = unsafe { libc::dlerror() };
    if !why.is_null() {
        // SAFETY: the loader's own string, valid until the next call of it.
        page.set_text(unsafe { CStr::from_ptr(why) }.to_bytes());
    }
}

/// Which function crashed is to be known after the process has ended.
fn tell_of_crashes(page: &'static SharedPage) {
    PAGE.store(std::ptr::from_ref(page).cast_mut(), Ordering::Release);
    for signal in [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGABRT,
    ] {
        // SAFETY: all zero is a valid action.
        let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: reads the action into a live local.
        let read = unsafe { libc::sigaction(signal, std::ptr::null(), &mut now) };
        if read != 0 || now.sa_sigaction != libc::SIG_DFL {
            // The object has a handler of its own.
            continue;
        }
        now.sa_sigaction = crashed as extern "C" fn(c_int) as usize;
        now.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
        // SAFETY: the handler is a function of this library, which is never unloaded.
        unsafe { libc::sigaction(signal, &now, std::ptr::null_mut()) };
    }
}

/// Notes whose thread this is. The instruction is then executed again, with the default action.
extern "C" fn crashed(_: c_int) {
    let page = PAGE.load(Ordering::Acquire);
    // SAFETY: null, or the page, which is never freed.
    let Some(page) = (unsafe { page.as_ref() }) else {
        return;
    };
    let tid = task::current_tid() as u32;
    let its = (1..LINES).find(|line| word(page, *line, THREAD).load(Ordering::Acquire) == tid);
    if let Some(line) = its {
        word(page, 0, CRASHED).store(line as u32, Ordering::Release);
    }
}
