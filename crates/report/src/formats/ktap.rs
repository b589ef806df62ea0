//! KTAP, version 1: what the kernel's own tests print (Documentation/dev-tools/ktap.rst).

use std::fmt::Write as _;

use punctual_record::{Judgement, Run};

use super::cases::{Found, cases};
use super::plain;
use crate::figures::Figures;
use crate::verdict;

pub(super) fn write(run: &Run) -> String {
    let judgement = Judgement::from_run(run);
    let cases = cases(run, judgement.as_ref());
    let mut text = format!("KTAP version 1\n1..{}\n", cases.len());
    let figures = Figures::from_run(run).merged;
    let _ = writeln!(text, "# kernel: {}", plain(&run.system.kernel.release));
    let _ = writeln!(text, "# samples: {}", figures.count);
    if let Some(max) = figures.max {
        let _ = writeln!(text, "# max_ns: {max}");
    }
    if let Some(judgement) = &judgement {
        let _ = writeln!(text, "# {}", plain(&verdict::sentence(judgement)));
    }
    for (number, case) in (1..).zip(&cases) {
        let name = format!("{}: {}", case.class, plain(&case.name));
        // The rest of the line after such a sign is a directive.
        let name = name.replace('#', "no. ");
        let (word, directive) = match &case.result {
            Found::Good => ("ok", String::new()),
            Found::Failure(kind, why) => {
                // What is said of a case stands before it.
                let _ = writeln!(text, "# {kind}: {}", plain(why));
                ("not ok", String::new())
            }
            Found::Error(kind, why) => ("not ok", format!(" # ERROR {kind}: {}", plain(why))),
            Found::Skipped(why) => ("ok", format!(" # SKIP {}", plain(why))),
        };
        let _ = writeln!(text, "{word} {number} {name}{directive}");
    }
    text
}
