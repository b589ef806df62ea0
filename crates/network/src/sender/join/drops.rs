//! Replies that the socket dropped, and which of them excuse a message.

/// The drops of a session.
#[derive(Debug, Default)]
pub(super) struct Drops {
    /// What the last reading said.
    counted: u32,
    /// Of no message it is known yet that its reply was among these.
    left: u32,
    /// Replies to lost messages that were dropped, in all.
    late: u64,
    /// Messages that were excused.
    excused: u64,
    /// Absent where the kernel does not say, or does not count it.
    room: Option<NoRoomCount>,
}

/// For how many datagrams there was no room, all sockets together.
#[derive(Debug, Clone, Copy)]
struct NoRoomCount {
    at_begin: u64,
    since: u64,
}

impl Drops {
    /// The socket dropped so many so far; the replies to these messages that are lost already may be among
    /// them, and excuse none.
    pub(super) fn read<'l>(&mut self, counted: u32, lost: impl Iterator<Item = &'l mut bool>) {
        let mut more = counted.wrapping_sub(self.counted);
        if more > 0 {
            for is_dropped in lost.take(more as usize) {
                *is_dropped = true;
                self.late = self.late.saturating_add(1);
                more -= 1;
            }
        }
        self.left = self.left.saturating_add(more);
        self.counted = counted;
    }

    /// As [`super::Joiner::no_room`].
    pub(super) fn no_room(&mut self, total: Option<u64>) {
        let before = self.room;
        self.room = total.map(|total| {
            let at_begin = before.map_or(total, |room| room.at_begin);
            let since = total.saturating_sub(at_begin);
            NoRoomCount { at_begin, since }
        });
    }

    /// As [`super::Joiner::has_unexplained_drops`].
    pub(super) fn are_unexplained(&self) -> bool {
        let all = (self.excused + self.late).saturating_add(u64::from(self.left));
        self.left > 0 && self.room.is_some_and(|room| room.since < all)
    }

    /// Whether one of them excuses a message, which is then no excuse of another.
    pub(super) fn excuse(&mut self) -> bool {
        let had_room = self
            .room
            .is_some_and(|room| room.since <= self.excused + self.late);
        if self.left == 0 || had_room {
            return false;
        }
        self.left -= 1;
        self.excused += 1;
        true
    }
}
