//! What a reader finds on the page: contents, bars, lanes, what stands under the pointer, and
//! words that are whole.

use super::browser::render;
use super::fixtures as report_fixtures;

use punctual_report::html;

/// What lies between two texts, each time.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let parts = text.split(open).skip(1);
    parts
        .map(|rest| rest.split(close).next().unwrap_or_default())
        .collect()
}

#[test]
fn the_contents_name_every_section_once_and_lead_there() {
    for (name, run) in report_fixtures::all() {
        let page = html::page(&run);
        let nav = between(&page, "<nav", "</nav>");
        assert_eq!(nav.len(), 1, "{name}");
        let links: Vec<&str> = between(nav[0], "<a href=\"#", "\"");
        let headings: Vec<&str> = between(&page, "<h2 id=\"", "\"");
        assert_eq!(links, headings, "{name}");
        assert!(
            links.contains(&"latency") && links.contains(&"conditions"),
            "{name}: {links:?}"
        );
    }
}

#[test]
fn causes_have_bars_that_say_their_share_of_the_outliers() {
    let run = report_fixtures::explained();
    let page = html::page(&run);
    let widths: Vec<f64> = between(&page, "class=\"part\"><span style=\"width:", "%")
        .iter()
        .map(|width| width.parse().expect("a width"))
        .collect();
    let explanation = run.explanation.as_ref().expect("an explained run");
    assert_eq!(widths.len(), explanation.ranking.len());
    let sum: f64 = widths.iter().sum();
    assert!((99.0..101.0).contains(&sum), "{sum}: {widths:?}");
    let whole: u64 = explanation.ranking.iter().map(|it| it.tail_ns).sum();
    let most = explanation.ranking.iter().map(|it| it.tail_ns).max();
    let percent = 100.0 * most.unwrap_or(0) as f64 / whole as f64;
    let widest = widths.iter().copied().fold(0.0, f64::max);
    assert!((widest - percent).abs() < 0.1, "{widest} {percent}");
    assert!(page.contains(&format!(
        "<span class=\"of\">{percent:.1}\u{a0}%</span></td>"
    )));
}

/// Style sheets alone show what stands under the pointer.
#[test]
fn the_charts_say_their_figures_under_the_pointer() {
    let run = report_fixtures::good();
    let page = html::page(&run);
    for chart in ["histogram", "timeline", "lanes", "percentiles"] {
        for form in ["wide", "narrow"] {
            let id = format!("id=\"{chart}-{form}-title\"");
            let picture = page.split(&id).nth(1).expect(&id);
            let picture = picture.split("</svg>").next().unwrap_or_default();
            let says = between(picture, "<g class=\"hit\">", "</g>");
            assert!(says.len() >= 10, "{chart} {form}: {}", says.len());
            assert!(
                says.len() <= if form == "wide" { 130 } else { 70 },
                "{chart} {form}"
            );
            assert!(
                says.iter()
                    .all(|it| it.contains("<text") && it.contains("class=\"strip\""))
            );
        }
    }
    assert!(page.contains(".hit:hover"));
    // Every sample of every CPU is under one of the histogram's strips.
    let picture = between(&page, "id=\"histogram-wide-title\"", "</svg>")[0];
    let counted: u64 = between(picture, "<g class=\"hit\">", "</g>")
        .iter()
        .filter_map(|it| it.split(": ").nth(1)?.split(' ').next())
        .map(|count| count.replace(',', "").parse::<u64>().expect(count))
        .sum();
    assert_eq!(
        counted,
        run.threads.iter().map(|it| it.latency.count).sum::<u64>()
    );
}

#[test]
fn each_cpu_has_a_lane_where_the_record_says_when() {
    let run = report_fixtures::good();
    let lanes = |run| {
        let page = html::page(run);
        let pictures = between(&page, "id=\"lanes-wide-title\"", "</svg>");
        pictures.first().map(|picture| (*picture).to_owned())
    };
    let picture = lanes(&run).expect("lanes");
    for thread in &run.threads {
        let label = format!(">CPU {}</text>", thread.cpu.expect("a CPU"));
        assert_eq!(picture.matches(&label).count(), 1, "{label}");
    }
    // Of one CPU the timeline says the same; without a start nobody knows when.
    let mut one = run.clone();
    one.threads.truncate(1);
    assert!(lanes(&one).is_none());
    let mut unknown = run.clone();
    unknown.start_ns = None;
    assert!(lanes(&unknown).is_none());
    let many = lanes(&report_fixtures::many(64, 2_000)).expect("lanes");
    assert_eq!(many.matches("class=\"rule\"").count(), 16);
}

#[test]
fn wide_tables_say_so_on_a_telephone() {
    for (name, run) in report_fixtures::all() {
        let page = html::page(&run);
        let mut before = "";
        for piece in page
            .split("<div class=\"scroll\"")
            .collect::<Vec<_>>()
            .windows(2)
        {
            before = piece[0];
            let head = between(piece[1], "<thead>", "</thead>");
            let columns = head.first().map_or(0, |head| head.matches("<th ").count());
            let hinted = before.trim_end().ends_with("</p>")
                && before
                    .rsplit("<p ")
                    .next()
                    .is_some_and(|last| last.contains("hint"));
            assert_eq!(hinted, columns > 4, "{name}: {columns} columns");
        }
        assert!(!before.is_empty() || name == "empty", "{name}");
    }
}

/// A reader's browser lays the page out at several widths, and is asked which words stand on
/// two lines.
#[test]
fn no_short_word_is_broken_in_a_table() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    for (name, run) in report_fixtures::all() {
        std::fs::write(scratch.path().join("page.html"), html::page(&run)).expect("written");
        let outer = scratch.path().join("outer.html");
        std::fs::write(&outer, WORDS_ON_TWO_LINES).expect("written");
        let more = ["--allow-file-access-from-files"];
        let Some((dom, log)) = render(&outer, &scratch.path().join("profile"), &more) else {
            return;
        };
        let said = between(&dom, "<p id=\"o\">", "</p>");
        assert_eq!(said, ["broken:"], "{name}: {log}");
    }
}

const WORDS_ON_TWO_LINES: &str = r"<!DOCTYPE html><meta charset=utf-8>
<iframe id=f src=page.html style='width:1040px;height:800px;border:0'></iframe><p id=o>none</p>
<script>onload=function(){
var d=f.contentDocument,found={};
[1040,900,760,400].forEach(function(w){
  f.style.width=w+'px';
  d.querySelectorAll('td,th,dt,dd').forEach(function(cell){
    if(!cell.getClientRects().length)return;
    // Text of a cell with a long word may be broken anywhere.
    if(/\S{17}/.test(cell.textContent.replace(/\u00a0/g,' ')))return;
    var walk=d.createTreeWalker(cell,4),node;
    while(node=walk.nextNode()){
      var word,search=/[A-Za-z0-9]{2,16}/g;
      while(word=search.exec(node.data)){
        var range=d.createRange();
        range.setStart(node,word.index);range.setEnd(node,word.index+word[0].length);
        var tops={};
        for(var r of range.getClientRects())tops[Math.round(r.top)]=1;
        if(Object.keys(tops).length>1)found[word[0]+'@'+w]=1;
      }
    }
  });
});
o.textContent=('broken: '+Object.keys(found).join(' ')).trim();
};</script>";

/// What began before the picture, or ended after it, ends at its edge: it neither covers the
/// names of the lanes nor runs out of the page.
#[test]
fn bars_of_a_bill_stay_within_their_picture() {
    let mut run = report_fixtures::explained();
    let bills = run.explanation.iter_mut().flat_map(|it| &mut it.bills);
    for bill in bills {
        let late = i64::try_from(bill.latency_ns).expect("a latency");
        let spans = bill.picture.iter_mut().flat_map(|it| &mut it.spans);
        for span in spans.take(2) {
            (span.from_ns, span.to_ns) = (-9 * late, 9 * late);
        }
    }
    let page = html::page(&run);
    let mut bars = 0;
    for (form, left, right) in [("wide", 120.0, 940.0), ("narrow", 76.0, 372.0)] {
        for number in 1..=8 {
            let pictures = between(
                &page,
                &format!("id=\"bill-{number}-{form}-title\""),
                "</svg>",
            );
            for rect in between(pictures[0], "<rect class=\"bar\" ", "/>") {
                let of = |name: &str| -> f64 {
                    let value = between(rect, &format!("{name}=\""), "\"");
                    value[0].parse().expect(rect)
                };
                assert!(of("x") >= left - 0.1, "{form} {number}: {rect}");
                // The shortest is drawn 1.2 pixels wide.
                assert!(
                    of("x") + of("width") <= right + 1.3,
                    "{form} {number}: {rect}"
                );
                bars += 1;
            }
        }
    }
    assert!(bars > 50, "{bars}");
}

/// Style sheets set the size of what bears their class, in pictures too: a rule of the page that
/// sets one must name no class of a picture.
#[test]
fn no_rule_of_the_page_resizes_what_a_picture_draws() {
    let page = html::page(&report_fixtures::explained());
    let style = between(&page, "<style>", "</style>")[0];
    let mut sized = Vec::new();
    for rule in style.split('}') {
        let (selectors, body) = rule.rsplit_once('{').unwrap_or(("", rule));
        let sizes = ["width:", "height:"];
        let sets = |part: &str| sizes.iter().any(|size| part.starts_with(size));
        if body.split(';').any(sets) {
            let classes = selectors.split('.').skip(1);
            let name = |it: &str| {
                let end = it.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                it[..end.unwrap_or(it.len())].to_owned()
            };
            sized.extend(classes.map(name));
        }
    }
    assert!(sized.contains(&"part".to_owned()), "{sized:?}");
    for picture in between(&page, "<svg ", "</svg>") {
        // Of the picture itself the page sets the size.
        let inner = picture.split_once('>').map_or("", |parts| parts.1);
        for classes in between(inner, "class=\"", "\"") {
            for class in classes.split(' ') {
                assert!(
                    !sized.iter().any(|it| it == class),
                    "{class} has a size on the page"
                );
            }
        }
    }
}

/// Counts of a thousand and more have their separators, on the page and in the terminal.
#[test]
fn no_count_stands_ungrouped() {
    use punctual_record::{Event, Happening, TracerCost};
    use punctual_report::style::Style;
    use punctual_report::{svg, terminal};
    let mut run = report_fixtures::explained();
    run.own_cost.tracer = Some(TracerCost {
        cpu_ns: 1_234_567,
        events: 7_654_321,
        lost: 4_321,
        unread_ns: 1_200_000_000,
    });
    let what = Happening::Steal {
        cpu: 0,
        stolen_ns: 1,
        between_ns: 2,
    };
    let event = Event::new(1_000_000, what);
    run.events.extend(vec![event; 5_000]);
    for thread in &mut run.threads {
        (thread.late, thread.missed, thread.lost) = (5_191, 6_789, 9_876);
    }
    let thread = report_fixtures::no_samples().threads.remove(0);
    run.threads
        .extend((4..1200).map(|cpu| punctual_record::Thread {
            cpu: Some(cpu),
            ..thread.clone()
        }));
    // Not counts: the seed, the date, the pid of a thread, CPUs.
    let known = |number: &str| ["2026", "20261121"].contains(&number);
    let page = html::page(&run);
    let body = page.split("<main>").nth(1).expect("a body");
    let texts = body
        .split('>')
        .filter_map(|piece| piece.split_once('<').map(|it| it.0));
    let shown: Vec<String> = texts.map(str::to_owned).collect();
    let whole = terminal::summary(&run, &Style::plain().verbose(true));
    let brief = terminal::summary(&run, &Style::plain());
    let pictures = svg::files(&run).into_iter().map(|it| {
        let texts =
            it.1.split('>')
                .filter_map(|piece| piece.split_once('<').map(|it| it.0));
        texts.collect::<Vec<_>>().join("\n")
    });
    for text in shown.into_iter().chain([whole, brief]).chain(pictures) {
        let mut before = "";
        for word in text.split(|c: char| c.is_whitespace() || "()[]:;/\"".contains(c)) {
            let word = word.trim_matches([',', '.']);
            let of_thread = matches!(std::mem::replace(&mut before, word), "PID" | "TID");
            let digits = word.chars().all(|c| c.is_ascii_digit()) && word.len() > 3 && !of_thread;
            // `CPU 1499` is a name.
            let label = text == word && word.parse::<u32>().is_ok_and(|cpu| cpu < 1200);
            let named = label
                || text.contains(&format!("CPU {word}"))
                || text.contains(&format!("[{word}]"));
            assert!(!digits || known(word) || named, "{word} in {text}");
        }
    }
}
