//! What is shown of a document, on whatever: a sentence, a summary, JSON, a page.

use punctual_record::Document;
use punctual_record::cost::Cost;
use punctual_record::fit::Fit;
use punctual_record::lab::Lab;
use punctual_record::ladder::Ladder;
use punctual_stats::verdict::Outcome;

use crate::style::Style;
use crate::{cost, fit, lab, ladder, summary_json};

/// A document that can be shown.
pub trait View: Document {
    /// What a line calls one, with its article.
    const A: &'static str;
    /// What shows as much as pictures would.
    const INSTEAD_OF_PICTURES: &'static str;

    /// The one line of `--quiet`; absent where that prints nothing.
    fn sentence(&self) -> Option<String>;

    /// What a terminal shows.
    fn summary(&self, style: &Style) -> String;

    /// What `--json` prints.
    fn json(&self) -> String;

    /// The page; `base` is the prefix of its links to the runs beside it. Absent where there is none.
    fn page(&self, base: &str) -> Option<String>;

    /// What the exit status says; absent where it could not be made.
    fn outcome(&self) -> Option<Outcome>;
}

/// What has pictures instead of many runs together.
const OF_ITS_RUNS: &str = "for --svg and --gnuplot, give the directory of one of its runs";

impl View for Lab {
    const A: &'static str = "a lab";
    const INSTEAD_OF_PICTURES: &'static str = OF_ITS_RUNS;

    fn sentence(&self) -> Option<String> {
        None
    }

    fn summary(&self, style: &Style) -> String {
        lab::tables(self, style)
    }

    fn json(&self) -> String {
        summary_json::of_lab(self)
    }

    fn page(&self, base: &str) -> Option<String> {
        Some(lab::page(self, base))
    }

    // That of its programs too, which its record doesn't judge.
    fn outcome(&self) -> Option<Outcome> {
        None
    }
}

impl View for Fit {
    const A: &'static str = "a fit";
    const INSTEAD_OF_PICTURES: &'static str = OF_ITS_RUNS;

    fn sentence(&self) -> Option<String> {
        Some(fit::sentence(self))
    }

    fn summary(&self, style: &Style) -> String {
        fit::summary(self, style)
    }

    fn json(&self) -> String {
        summary_json::of_fit(self)
    }

    fn page(&self, base: &str) -> Option<String> {
        Some(fit::page(self, base))
    }

    fn outcome(&self) -> Option<Outcome> {
        self.outcome.as_ref().map(|it| it.verdict())
    }
}

impl View for Ladder {
    const A: &'static str = "a ladder";
    const INSTEAD_OF_PICTURES: &'static str = "--html writes its page, which has one";

    fn sentence(&self) -> Option<String> {
        Some(ladder::sentence(self))
    }

    fn summary(&self, style: &Style) -> String {
        ladder::summary(self, style)
    }

    fn json(&self) -> String {
        summary_json::of_ladder(self)
    }

    fn page(&self, _base: &str) -> Option<String> {
        Some(ladder::page(self))
    }

    fn outcome(&self) -> Option<Outcome> {
        self.verdict()
    }
}

impl View for Cost {
    const A: &'static str = "a cost";
    const INSTEAD_OF_PICTURES: &'static str = "its summary and --json show all of it";

    fn sentence(&self) -> Option<String> {
        Some(cost::sentence(self))
    }

    fn summary(&self, style: &Style) -> String {
        cost::summary(self, style)
    }

    fn json(&self) -> String {
        summary_json::of_cost(self)
    }

    fn page(&self, _base: &str) -> Option<String> {
        None
    }

    fn outcome(&self) -> Option<Outcome> {
        self.verdict()
    }
}
