//! The histograms of a run that a merge adds up, decoded.

use punctual_stats::histogram::{DecodeError, HistogramRecord, SparseHistogram};

use super::super::run::Run;

/// The histograms of one run. To decode them is most of the work of adding it, and it can be
/// done on any thread beforehand.
#[derive(Debug)]
pub struct Decoded {
    /// Of each thread.
    pub(super) latency: Vec<SparseHistogram>,
    /// Of each stage of the explanation.
    pub(super) stages: Vec<SparseHistogram>,
}

impl Decoded {
    /// Buckets of one run that may wait decoded, of 16 bytes each. A small text can hold a
    /// histogram with every bucket occupied, and a record thousands of them; of a thousand
    /// CPUs it usually is half of this.
    const MOST_WAITING: usize = 1 << 22;

    /// Decodes what may wait until its turn comes. `None` where that is too much, or unsound:
    /// [`Merger::add`](super::Merger::add) then sees for itself.
    #[must_use]
    pub fn ahead(run: &Run) -> Option<Self> {
        let mut room = Self::MOST_WAITING;
        let within = |record: &HistogramRecord| -> Result<_, ()> {
            let decoded = SparseHistogram::try_from(record).map_err(drop)?;
            room = room.checked_sub(decoded.occupied()).ok_or(())?;
            Ok(decoded)
        };
        Self::by(within, run).ok()
    }

    /// Decodes, however much it is.
    pub(super) fn whole(run: &Run) -> Result<Self, DecodeError> {
        Self::by(|record| SparseHistogram::try_from(record), run)
    }

    fn by<E>(
        mut decode: impl FnMut(&HistogramRecord) -> Result<SparseHistogram, E>,
        run: &Run,
    ) -> Result<Self, E> {
        let threads = run.threads.iter().map(|thread| &thread.latency);
        let stages = run.explanation.iter().flat_map(|it| &it.stages);
        Ok(Self {
            latency: threads.map(&mut decode).collect::<Result<_, _>>()?,
            stages: stages
                .map(|entry| decode(&entry.times))
                .collect::<Result<_, _>>()?,
        })
    }
}
