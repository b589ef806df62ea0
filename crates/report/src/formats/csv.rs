//! The histogram as comma-separated values, one row for each bucket in use.

use std::fmt::Write;

use super::{WriteError, rows};
use punctual_record::Run;

/// Columns: `thread` counts from 0, `cpu` is empty where it isn't known; the bucket
/// holds `count` samples from `low_ns` to `high_ns`, both included, and
/// `at_or_below` of the thread's `total` lie at or below `high_ns`.
const HEADER: &str = "thread,cpu,low_ns,high_ns,count,at_or_below,total\n";

pub(super) fn write(run: &Run) -> Result<String, WriteError> {
    let mut out = HEADER.to_owned();
    for (index, thread) in run.threads.iter().enumerate() {
        let known = rows::known(run, index)?;
        let cpu = thread.cpu.map_or_else(String::new, |cpu| cpu.to_string());
        let mut below = 0_u64;
        for bucket in known.histogram.buckets() {
            below = below.saturating_add(bucket.count);
            let (low, high, count) = (bucket.low_ns, bucket.high_ns, bucket.count);
            // Writing to a string can't fail.
            let _ = writeln!(
                out,
                "{index},{cpu},{low},{high},{count},{below},{}",
                known.count()
            );
        }
        if known.beyond > 0 {
            // One row for all that another tool did not keep, up to its maximum.
            let low = known.kept_below_ns.or(known.min_ns).unwrap_or(0);
            let high = known.max_ns.unwrap_or(u64::MAX).max(low);
            let (beyond, total) = (known.beyond, known.count());
            let _ = writeln!(out, "{index},{cpu},{low},{high},{beyond},{total},{total}");
        }
    }
    Ok(out)
}
