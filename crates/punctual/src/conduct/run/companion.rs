//! What accompanies a measurement: it sees every sample and every bill, acts meanwhile, and adds
//! to the record.

use punctual_record::Run;
use punctual_record::explanation::Bill;

use crate::probe::collector::SampleSink;

/// Receives the bill of each wake-up that was explained.
pub type BillSink = Box<dyn FnMut(&Bill) + Send>;

/// What accompanies a measurement.
pub trait Companion {
    /// Receives every sample.
    fn samples(&self) -> Box<dyn SampleSink>;

    /// Receives every bill.
    fn bills(&self) -> BillSink;

    /// The measurement begins at this instant of CLOCK_MONOTONIC.
    fn begin(&mut self, start_ns: u64, housekeeping: Option<usize>);

    /// Whether it has nothing left to do: the measurement ends.
    fn is_over(&self) -> bool;

    /// Ends what it does to the machine, while the probes are alive.
    fn end(&mut self);

    /// Puts what is known so far into the record.
    fn put_into(&self, run: &mut Run);
}
