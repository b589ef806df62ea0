//! A function of a shared object, called for a task of `punctual exec`: this process, which has done
//! nothing of its own yet, loads the object and calls the function whenever the task asks for it.
//!
//! The task and this process share a page: word 0 counts requests, 1 replies, 2 is the function's
//! result, 3 says whether the function was found (1) or why not is in the text (2).

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering;

use punctual_rt::sys::shared::SharedPage;

const REQUEST: usize = 0;
const REPLY: usize = 1;
const RESULT: usize = 2;
const STATE: usize = 3;

/// `FD:FUNCTION:PATH` in the environment.
const VARIABLE: &CStr = c"PUNCTUAL_STEP";

/// Longer than any wait: it begins again.
const LONG_NS: u64 = 1_000_000_000;

/// Serves for ever if this process is one for a task; else it returns.
pub(crate) fn serve_if_asked() {
    // SAFETY: the name is a C string; nothing changes the environment before `main`.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: a string of the environment, which lives as long as the process.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes_with_nul();
    // What the object starts isn't one for a task.
    // SAFETY: the name is a C string, and this is the only thread.
    unsafe { libc::unsetenv(VARIABLE.as_ptr()) };
    let mut parts = value.splitn(3, |byte| *byte == b':');
    let number = parts
        .next()
        .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let (Some(number), Some(function), Some(path)) = (number, parts.next(), parts.next()) else {
        end(2);
    };
    match SharedPage::inherited(number) {
        Ok(page) => serve(&page, function, path),
        Err(_) => end(2),
    }
}

fn end(code: c_int) -> ! {
    // SAFETY: ends the process without any of its handlers, none of which is set up.
    unsafe { libc::_exit(code) }
}

fn serve(page: &SharedPage, function: &[u8], path: &[u8]) -> ! {
    // The parent may be gone already: then it has another one.
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: the path ends with a zero byte: it is the end of a C string.
    let object = unsafe { libc::dlopen(path.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if object.is_null() {
        refuse(page);
    }
    let mut name = function.to_vec();
    name.push(0);
    // SAFETY: the object was loaded, and the name ends with a zero byte.
    let address = unsafe { libc::dlsym(object, name.as_ptr().cast()) };
    if address.is_null() {
        refuse(page);
    }
    // SAFETY: the user says that the function is of this type.
    let step: extern "C" fn(*mut c_void) -> c_int = unsafe { std::mem::transmute(address) };
    // Without the right to lock memory the first call of each page faults.
    // SAFETY: takes a number.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    let mut place: *mut c_void = std::ptr::null_mut();
    page.word(STATE).store(1, Ordering::Release);
    page.wake(STATE);
    let mut served = 0;
    loop {
        let asked = page.word(REQUEST).load(Ordering::Acquire);
        if asked == served {
            page.wait(REQUEST, served, LONG_NS);
            continue;
        }
        let result = step((&raw mut place).cast());
        page.word(RESULT).store(result as u32, Ordering::Relaxed);
        served = asked;
        page.word(REPLY).store(served, Ordering::Release);
        page.wake(REPLY);
    }
}

/// Says what the loader says, and ends.
fn refuse(page: &SharedPage) -> ! {
    // SAFETY: takes nothing.
    let why = unsafe { libc::dlerror() };
    if !why.is_null() {
        // SAFETY: the loader's own string, valid until the next call of it.
        page.set_text(unsafe { CStr::from_ptr(why) }.to_bytes());
    }
    page.word(STATE).store(2, Ordering::Release);
    page.wake(STATE);
    end(1)
}
