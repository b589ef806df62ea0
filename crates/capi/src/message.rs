//! Messages of a channel.

use std::ffi::{c_int, c_uint, c_void};

use punctual_rt::channel::{Age, Message, Sent};

use crate::channel::{failed, punctual_channel};
use crate::errno::{fail, null, wrong_size};
use crate::versioned::{self, Versioned};

/// For punctual_channel_send(): another message follows at once, so no padding is needed.
pub const PUNCTUAL_CHANNEL_MORE: c_uint = 1;

/// The message has no stamp: its age is not known.
pub const PUNCTUAL_CHANNEL_AGE_UNKNOWN: c_int = 0;
/// The message is at least so old: how much longer it took than the fastest one.
pub const PUNCTUAL_CHANNEL_AGE_AT_LEAST: c_int = 1;
/// The message is so old, by the clock that both ends share.
pub const PUNCTUAL_CHANNEL_AGE_EXACT: c_int = 2;

/// A received message.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_channel_message {
    /// Set it to sizeof(struct punctual_channel_message).
    pub struct_size: usize,
    /// Its bytes.
    pub data: *const c_void,
    /// How many they are.
    pub size: usize,
    /// How old it may be, in ns; 0: no deadline.
    pub deadline_ns: u64,
    /// How old it is, in ns.
    pub age_ns: u64,
    /// What is known of its age: PUNCTUAL_CHANNEL_AGE_AT_LEAST or another of these.
    pub age: c_int,
    /// 1 if it is older than its deadline.
    pub late: c_int,
}

// SAFETY: repr(C), the size first, and every field an integer or a raw pointer, for which any bytes
// are valid.
unsafe impl Versioned for punctual_channel_message {
    const LEAST: usize = size_of::<usize>();
}

/// Counts of a channel since it was opened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_channel_counts {
    /// Set it to sizeof(struct punctual_channel_counts).
    pub struct_size: usize,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages of which nothing was sent: the socket accepted none.
    pub refused: u64,
    /// Frames of padding that were sent.
    pub padding_sent: u64,
    /// Messages that were received.
    pub received: u64,
    /// Of these: older than their deadline.
    pub late: u64,
    /// Of these: with a deadline and without a stamp.
    pub not_judged: u64,
    /// The age of the oldest message, in ns.
    pub oldest_ns: u64,
    /// Frames of padding that were received and discarded.
    pub padding_received: u64,
}

// SAFETY: repr(C), the size first, and every field an integer.
unsafe impl Versioned for punctual_channel_counts {
    const LEAST: usize = size_of::<usize>();
}

/// Sends the `size` bytes at `message`, which may be `deadline_ns` old when they are received (0: no
/// deadline, and no stamp). `flags`: 0 or PUNCTUAL_CHANNEL_MORE. Returns 0, or 1 if the kernel has
/// only the beginning of it: the channel keeps the rest, and sends it first with the next message,
/// or with punctual_channel_flush().
///
/// A real-time thread may call it: one system call (sendto, or sendmmsg with padding and above 2048
/// bytes) while the socket has room. With PUNCTUAL_CHANNEL_WAIT it waits for room until the
/// deadline, by a ppoll for each wait. -1 with errno, and nothing was sent: EFAULT NULL; EINVAL the
/// flags; EMSGSIZE above message_max; EAGAIN no room; ETIME no room until the deadline; EINTR a
/// signal handler ran; EPIPE, ECONNRESET, ETIMEDOUT the connection has ended.
///
/// # Safety
/// `channel` is NULL or is open, and one thread at a time sends; `size` bytes at `message` are
/// readable, or it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_send(
    channel: *mut punctual_channel,
    message: *const c_void,
    size: usize,
    deadline_ns: u64,
    flags: c_uint,
) -> c_int {
    // SAFETY: by contract NULL or open.
    let Some(channel) = (unsafe { channel.as_ref() }) else {
        return null();
    };
    let bytes = match (size, message.is_null()) {
        (0, _) => &[],
        (_, true) => return null(),
        // SAFETY: not NULL, so by contract `size` bytes are readable.
        (_, false) => unsafe { std::slice::from_raw_parts(message.cast::<u8>(), size) },
    };
    // SAFETY: by contract one thread at a time sends, and only senders use this half.
    let sender = unsafe { &mut *channel.sender.get() };
    let sent = match flags {
        0 => sender.send(bytes, deadline_ns),
        PUNCTUAL_CHANNEL_MORE => sender.send_more(bytes, deadline_ns),
        _ => return fail(libc::EINVAL, c"flags: expected 0 or PUNCTUAL_CHANNEL_MORE"),
    };
    match sent {
        Ok(Sent::Whole) => 0,
        Ok(Sent::Partly) => 1,
        Err(error) => failed(&error),
    }
}

/// Sends the rest of a message that punctual_channel_send() returned 1 for, until an instant of
/// CLOCK_MONOTONIC in ns: 0 does not wait, UINT64_MAX waits without a limit.
///
/// A real-time thread may call it: no system call without a rest, else one, and two for each wait.
/// -1 with errno: EFAULT NULL; EAGAIN no room; ETIME at the instant; EINTR; EPIPE, ECONNRESET,
/// ETIMEDOUT the connection has ended.
///
/// # Safety
/// As for punctual_channel_send().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_flush(
    channel: *mut punctual_channel,
    until_ns: u64,
) -> c_int {
    // SAFETY: by contract NULL or open.
    let Some(channel) = (unsafe { channel.as_ref() }) else {
        return null();
    };
    // SAFETY: by contract one thread at a time sends, and only senders use this half.
    let sender = unsafe { &mut *channel.sender.get() };
    sender
        .flush(until_ns)
        .map_or_else(|error| failed(&error), |()| 0)
}

/// States that no message follows: the peer's receive returns EPIPE after the last one.
///
/// A real-time thread may call it: one system call. -1 with errno: EFAULT NULL; EAGAIN the rest of
/// a message is not sent; ENOTCONN.
///
/// # Safety
/// As for punctual_channel_send().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_finish(channel: *mut punctual_channel) -> c_int {
    // SAFETY: by contract NULL or open.
    let Some(channel) = (unsafe { channel.as_ref() }) else {
        return null();
    };
    // SAFETY: by contract one thread at a time sends, and only senders use this half.
    let sender = unsafe { &mut *channel.sender.get() };
    sender.finish().map_or_else(|error| failed(&error), |()| 0)
}

/// What C programs get of a message.
fn described(message: &Message<'_>) -> punctual_channel_message {
    punctual_channel_message {
        struct_size: 0,
        data: message.payload.as_ptr().cast(),
        size: message.payload.len(),
        deadline_ns: message.deadline_ns,
        age_ns: message.age.ns(),
        age: match message.age {
            Age::Unknown => PUNCTUAL_CHANNEL_AGE_UNKNOWN,
            Age::AtLeast(_) => PUNCTUAL_CHANNEL_AGE_AT_LEAST,
            Age::Exactly(_) => PUNCTUAL_CHANNEL_AGE_EXACT,
        },
        late: c_int::from(message.is_late()),
    }
}

/// Whether `out` has a size that `versioned::write` accepts: before a message is taken.
///
/// # Safety
/// `out` is NULL, or its first field is readable.
unsafe fn has_room(out: *const punctual_channel_message) -> bool {
    // SAFETY: by contract NULL or readable.
    unsafe { out.cast::<usize>().as_ref() }
        .is_none_or(|size| (punctual_channel_message::LEAST..=4096).contains(size))
}

/// Receives a message into the memory of the channel, until an instant of CLOCK_MONOTONIC in ns: 0
/// does not wait, UINT64_MAX waits without a limit. `out->data` is valid until the next call.
/// Set `out->struct_size` first.
///
/// A real-time thread may call it: no system call if the message came with an earlier one; one
/// (recvfrom) with 0 or UINT64_MAX; two (ppoll, recvfrom) with an instant. Padding that arrives by
/// itself costs as much, and quick_ack 2 adds one. -1 with errno: EFAULT NULL; EINVAL
/// `struct_size`; EAGAIN no message; ETIME at the instant; EINTR a signal handler ran. The
/// connection has ended, or is of no more use: EPIPE the peer closed it; EBADMSG within a message;
/// EPROTO its bytes are no frame; EMSGSIZE its message is above message_max; ECONNRESET;
/// ETIMEDOUT.
///
/// # Safety
/// `channel` is NULL or is open, and one thread at a time receives; `out` is NULL, or
/// `out->struct_size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_receive(
    channel: *mut punctual_channel,
    until_ns: u64,
    out: *mut punctual_channel_message,
) -> c_int {
    // SAFETY: by contract NULL or open.
    let Some(channel) = (unsafe { channel.as_ref() }).filter(|_| !out.is_null()) else {
        return null();
    };
    // SAFETY: not NULL, so by contract writable, with its size first.
    if !unsafe { has_room(out) } {
        return wrong_size();
    }
    // SAFETY: by contract one thread at a time receives, and only receivers use this half.
    let receiver = unsafe { &mut *channel.receiver.get() };
    match receiver.receive(until_ns) {
        Ok(message) => {
            // SAFETY: not NULL, so by contract `struct_size` bytes are writable.
            unsafe { versioned::write(out, described(&message)) };
            0
        }
        Err(error) => failed(&error),
    }
}

/// Receives a message into `buffer`, which has `room` bytes; returns its size. `out` may be NULL.
/// Otherwise like punctual_channel_receive().
///
/// A real-time thread may call it: the system calls of punctual_channel_receive(). -1 with errno:
/// the same, and ENOBUFS `room` is too little: the message is kept, and the next call returns it.
///
/// # Safety
/// As for punctual_channel_receive(), and `room` bytes at `buffer` are writable, or it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_read(
    channel: *mut punctual_channel,
    buffer: *mut c_void,
    room: usize,
    until_ns: u64,
    out: *mut punctual_channel_message,
) -> libc::ssize_t {
    // SAFETY: by contract NULL or open.
    let Some(channel) = (unsafe { channel.as_ref() }) else {
        return null() as libc::ssize_t;
    };
    // SAFETY: by contract NULL or writable, with its size first.
    if !unsafe { has_room(out) } {
        return wrong_size() as libc::ssize_t;
    }
    let bytes = match (room, buffer.is_null()) {
        (0, _) => &mut [],
        (_, true) => return null() as libc::ssize_t,
        // SAFETY: not NULL, so by contract `room` bytes are writable, and nothing else uses them.
        (_, false) => unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), room) },
    };
    // SAFETY: by contract one thread at a time receives, and only receivers use this half.
    let receiver = unsafe { &mut *channel.receiver.get() };
    match receiver.receive_into(bytes, until_ns) {
        Ok(message) => {
            if !out.is_null() {
                // SAFETY: not NULL, so by contract `struct_size` bytes are writable.
                unsafe { versioned::write(out, described(&message)) };
            }
            // At most 2^24.
            message.payload.len() as libc::ssize_t
        }
        Err(error) => failed(&error) as libc::ssize_t,
    }
}

/// What was counted. Any thread may call it, also while others send and receive. Set
/// `out->struct_size` first.
///
/// A real-time thread may call it: a few loads. -1 with errno: EFAULT NULL; EINVAL `struct_size`.
///
/// # Safety
/// `channel` is NULL or is open; `out` is NULL, or `out->struct_size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_counts(
    channel: *const punctual_channel,
    out: *mut punctual_channel_counts,
) -> c_int {
    // SAFETY: by contract NULL or open.
    let Some(channel) = (unsafe { channel.as_ref() }).filter(|_| !out.is_null()) else {
        return null();
    };
    let counts = channel.monitor.counts();
    let found = punctual_channel_counts {
        struct_size: 0,
        sent: counts.sent,
        refused: counts.refused,
        padding_sent: counts.padding_sent,
        received: counts.received,
        late: counts.late,
        not_judged: counts.not_judged,
        oldest_ns: counts.oldest_ns,
        padding_received: counts.padding_received,
    };
    // SAFETY: not NULL, so by contract `struct_size` bytes are writable.
    if unsafe { versioned::write(out, found) } {
        0
    } else {
        wrong_size()
    }
}
