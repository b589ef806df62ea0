//! Control messages of a socket: the kernel's time stamps, read from bytes.

/// Memory for the control messages of one call.
pub const CONTROL_BYTES: usize = 256;

const SOL_SOCKET: i32 = 1;
/// As `SCM_TIMESTAMPING`, with 64-bit times.
const TIMESTAMPING: [i32; 2] = [37, 65];
const ORIGIN_TIMESTAMPING: u8 = 4;
const ORIGIN_TXTIME: u8 = 6;

/// What came along with data, or from the error queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ancillary {
    /// The kernel's stamp, CLOCK_REALTIME.
    pub software_ns: Option<u64>,
    /// The network card's, by its own clock.
    pub hardware_ns: Option<u64>,
    /// Of sent data: which.
    pub sent: Option<SentStamp>,
    /// The launch time of data that a queueing discipline dropped because that time had passed, by the
    /// clock of the launch times.
    pub missed_ns: Option<u64>,
}

/// To which sent data a stamp belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentStamp {
    /// Where the data was.
    pub stage: SentStage,
    /// TCP: the offset of the last byte of the call that sent it; datagrams: their number from 0.
    pub id: u32,
}

/// Where sent data was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SentStage {
    /// It was passed to the driver, or the card.
    #[default]
    Software,
    /// It entered the packet scheduler.
    Scheduled,
    /// It was acknowledged.
    Acknowledged,
}

impl Ancillary {
    /// Reads control messages; what is cut or unknown is left out.
    #[must_use]
    pub fn parse(mut bytes: &[u8]) -> Self {
        const WORD: usize = size_of::<usize>();
        const HEAD: usize = WORD + 8;
        let mut found = Self::default();
        while bytes.len() >= HEAD {
            let word = bytes[..WORD].try_into().map_or(0, usize::from_ne_bytes);
            let level = i32_at(bytes, WORD);
            let kind = i32_at(bytes, WORD + 4);
            if word < HEAD || word > bytes.len() {
                break;
            }
            let data = &bytes[HEAD..word];
            if level == SOL_SOCKET && TIMESTAMPING.contains(&kind) {
                found.software_ns = time_at(data, 0);
                found.hardware_ns = time_at(data, 2);
            } else if let Some(sent) = sent_stamp(data) {
                found.sent = Some(sent);
            } else if let Some(missed_ns) = missed_launch(data) {
                found.missed_ns = Some(missed_ns);
            }
            bytes = bytes.get(word.next_multiple_of(WORD)..).unwrap_or(&[]);
        }
        found
    }
}

/// `struct sock_extended_err`, which the error queues of all protocols have.
fn sent_stamp(data: &[u8]) -> Option<SentStamp> {
    if *data.get(4)? != ORIGIN_TIMESTAMPING {
        return None;
    }
    let stage = match i32_at(data, 8) {
        0 => SentStage::Software,
        1 => SentStage::Scheduled,
        2 => SentStage::Acknowledged,
        _ => return None,
    };
    let id = u32_at(data, 12)?;
    Some(SentStamp { stage, id })
}

/// The launch time in the `struct sock_extended_err` of data that was dropped for it.
fn missed_launch(data: &[u8]) -> Option<u64> {
    if *data.get(4)? != ORIGIN_TXTIME {
        return None;
    }
    // `ee_info` has the low half, `ee_data` the high one.
    Some(u64::from(u32_at(data, 12)?) << 32 | u64::from(u32_at(data, 8)?))
}

/// The `index`-th of an array of `timespec`, absent if it is zero.
fn time_at(data: &[u8], index: usize) -> Option<u64> {
    let word = |at: usize| {
        let bytes = data.get(at..at + 8)?.try_into().ok()?;
        u64::try_from(i64::from_ne_bytes(bytes)).ok()
    };
    let (seconds, ns) = (word(index * 16)?, word(index * 16 + 8)?);
    let at_ns = seconds.checked_mul(1_000_000_000)?.checked_add(ns)?;
    (at_ns > 0).then_some(at_ns)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(four))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    u32_at(bytes, at).map_or(0, u32::cast_signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn times(seconds: i64, ns: i64) -> Vec<u8> {
        let mut data = [seconds.to_ne_bytes(), ns.to_ne_bytes()].concat();
        data.extend([0; 32]);
        data
    }

    #[test]
    fn a_stamp_of_the_error_queue_says_when_and_of_what() {
        let mut error = [0u8; 16];
        error[0] = 42;
        error[4] = ORIGIN_TIMESTAMPING;
        error[8..12].copy_from_slice(&1i32.to_ne_bytes());
        error[12..].copy_from_slice(&255u32.to_ne_bytes());
        let mut bytes = message(SOL_SOCKET, 37, &times(2, 5));
        bytes.extend(message(0, 11, &error));
        let read = Ancillary::parse(&bytes);
        assert_eq!(read.software_ns, Some(2_000_000_005));
        assert_eq!(read.hardware_ns, None);
        assert_eq!(
            read.sent,
            Some(SentStamp {
                stage: SentStage::Scheduled,
                id: 255
            })
        );
    }

    #[test]
    fn data_that_missed_its_launch_time_is_known_by_that_time() {
        let at_ns = 1_700_000_000_123_456_789_u64;
        let mut error = [0u8; 16];
        error[0] = 125;
        error[4] = ORIGIN_TXTIME;
        error[5] = 2;
        error[8..12].copy_from_slice(&(at_ns as u32).to_ne_bytes());
        error[12..].copy_from_slice(&((at_ns >> 32) as u32).to_ne_bytes());
        let bytes = message(0, 11, &error);
        let read = Ancillary::parse(&bytes);
        assert_eq!((read.missed_ns, read.sent), (Some(at_ns), None));
        for length in 0..bytes.len() {
            assert_eq!(Ancillary::parse(&bytes[..length]).missed_ns, None);
        }
    }

    #[test]
    fn what_is_cut_or_odd_is_left_out() {
        let whole = message(SOL_SOCKET, 37, &times(2, 5));
        for length in 0..whole.len() {
            let _ = Ancillary::parse(&whole[..length]);
        }
        assert_eq!(Ancillary::parse(&whole[..40]), Ancillary::default());
        let huge = usize::MAX.to_ne_bytes();
        assert_eq!(
            Ancillary::parse(&[&huge[..], &[0; 24]].concat()),
            Ancillary::default()
        );
        let before_1970 = message(SOL_SOCKET, 37, &times(-1, 5));
        assert_eq!(Ancillary::parse(&before_1970).software_ns, None);
        assert_eq!(Ancillary::parse(&message(1, 37, &[])).software_ns, None);
    }
}
